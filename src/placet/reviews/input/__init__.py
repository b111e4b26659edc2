"""Input: something is missing that only a person knows."""
