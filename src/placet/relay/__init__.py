"""The relay: a proxy between agents that checks messages against policies and holds them for review."""
