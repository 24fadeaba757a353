"""Planners, and the loop that they share."""
