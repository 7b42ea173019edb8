"""`lingraft probe-source`: at which point of its training a model loses the source's language."""
