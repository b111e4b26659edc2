"""Messengers, one folder each: how a question looks there, what a press looks like, and how it is sent."""
