"""Push notifications: agents tell the relay, and the relay tells the callers."""
