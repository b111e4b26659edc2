"""Calls to agents: their cards, and guarded HTTP connections to them."""
