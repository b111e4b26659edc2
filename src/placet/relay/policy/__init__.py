"""Policies, their bindings, and the evaluation of findings. This package does not parse messages."""
