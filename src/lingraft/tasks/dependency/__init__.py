"""KLUE-DP: files, trees and scores of dependency parsing (SPEC B.7)."""
