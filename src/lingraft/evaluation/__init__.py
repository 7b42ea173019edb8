"""Evaluation of a masked language model on held-out text."""
