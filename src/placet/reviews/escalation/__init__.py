"""Escalation: something failed, and a person says how to go on."""
