"""KLUE-DP: files and scores of dependency parsing (SPEC B.7)."""
