"""Tool calls of an agent: an approval that is decided call by call."""
