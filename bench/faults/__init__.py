"""The server killed under load, again and again, and asked afterwards for everything it had acknowledged."""
