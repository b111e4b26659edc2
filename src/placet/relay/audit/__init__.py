"""The audit log of every message."""
