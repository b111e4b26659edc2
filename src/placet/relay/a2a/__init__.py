"""A2A in its four HTTP dialects: parse, build and rewrite. Pure: no clock, randomness or I/O."""
