"""The Presidio detector, and the process in which Presidio runs."""
