"""The kinds of review, each in its own folder; no kind knows another."""
