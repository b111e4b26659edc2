"""The review of an agent's tool calls: an approval that is decided call by call."""
