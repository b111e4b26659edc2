"""Held messages: messages that wait for a person's decision."""
