"""Calls to agents: the cache of agent cards, and the HTTP client with guarded addresses."""
