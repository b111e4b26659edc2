"""Confirmation: a person confirms something that may be irreversible."""
