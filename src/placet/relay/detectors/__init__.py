"""Detectors, and the evaluator that runs them over a message."""
