"""Confirmation: something cannot be taken back, and a person says whether it happens."""
