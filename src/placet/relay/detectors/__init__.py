"""Detectors, which do not know one another, and the inspector that runs them over a message."""
