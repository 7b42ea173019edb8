"""Readers: documents out of files of every kind, streamed."""
