"""Studies: many runs of one recipe side by side, and what can be said from them."""
