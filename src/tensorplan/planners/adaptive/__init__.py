"""Adaptive TensorPlan: data as they are needed, and a certificate with every plan (theory C, F)."""
