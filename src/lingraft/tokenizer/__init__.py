"""Vocabularies: training, extending, reading; and text as token ids on disk."""
