"""What an encoder knows across languages without training: retrieval and word alignment."""
