"""Storage engines, one folder each."""
