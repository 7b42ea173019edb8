"""Models after fine-tuning, side by side: scores, significance, mistakes. Reads files only."""
