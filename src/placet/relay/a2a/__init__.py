"""A2A as it travels, in four HTTP dialects: read, built, rewritten. Pure: no clock, no dice, no world."""
