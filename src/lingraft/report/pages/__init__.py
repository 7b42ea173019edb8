"""The pages, one file each, made from files alone."""
