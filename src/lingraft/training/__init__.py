"""One training loop: data, optimizer, checkpoints."""
