"""Measures of an encoder across languages without training: retrieval and word alignment."""
