"""The theorems of the paper as experiments."""
