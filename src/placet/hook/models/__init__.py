"""Adapters from the chat models people use to the one call that an agent makes."""
