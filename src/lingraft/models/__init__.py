"""Families as records, grafting, and the packed forward pass."""
