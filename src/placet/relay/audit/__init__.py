"""What happened to every message, kept so that it can be asked for."""
