"""Policies at work: on every message as it passes, on stored traffic, and on messages nobody sent."""
