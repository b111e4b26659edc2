"""A message between agents that a relay holds until a reviewer decides whether it is forwarded."""
