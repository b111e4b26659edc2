"""Carry a call to the agent and its answer back, whole or as a stream."""
