"""Coding agents whose tool calls `placet gate` approves: one module per host, and what they share."""
