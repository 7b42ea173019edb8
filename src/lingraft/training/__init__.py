"""Training loop: data, optimizer, checkpoints."""
