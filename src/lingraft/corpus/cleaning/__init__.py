"""Cleaning of documents, between reading and the split."""
