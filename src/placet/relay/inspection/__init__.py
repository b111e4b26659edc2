"""Apply policies to live messages, to stored traffic and to sample messages."""
