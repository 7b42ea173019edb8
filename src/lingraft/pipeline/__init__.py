"""A run from raw text to a model and its report, stage by stage."""
