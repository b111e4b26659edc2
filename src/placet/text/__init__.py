"""Text for people: hidden characters, translatable wording, truncation. Pure."""
