"""One training loop: data, optimiser, checkpoints."""
