"""Other people's checkpoints: where they lie, and loading them without running their code."""
