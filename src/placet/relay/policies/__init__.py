"""Policies, where they apply, and how findings become an outcome. Nothing here reads messages."""
