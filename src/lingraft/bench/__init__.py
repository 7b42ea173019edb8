"""How fast and how large training and evaluation are on this machine."""
