"""Interfaces to the world, one per concern, without implementations."""
