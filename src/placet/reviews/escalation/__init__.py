"""Escalation: something failed, and a person decides how to continue."""
