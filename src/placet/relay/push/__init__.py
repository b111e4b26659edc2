"""Push notifications from agents to callers, through the relay."""
