"""The way of a call: in at the door, to the agent, and back, whole or as a stream."""
