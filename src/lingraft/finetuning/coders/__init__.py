"""From examples to inputs, and from outputs to predictions: one file a kind of task."""
