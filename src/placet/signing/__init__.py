"""Keys and signatures that prove a decision."""
