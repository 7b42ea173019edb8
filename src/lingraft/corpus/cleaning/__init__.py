"""What happens to a document between reading and the split."""
