"""Adapters from common chat model APIs to the model function that an agent calls."""
