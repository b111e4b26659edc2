"""Approval: something was made, and a person decides whether it may be used."""
