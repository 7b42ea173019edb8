"""KLUE-DP: files and scores of dependency parsing."""
