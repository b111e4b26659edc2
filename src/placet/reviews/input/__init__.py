"""Input: a person fills in information that only they have."""
