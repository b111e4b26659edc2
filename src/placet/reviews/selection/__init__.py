"""Selection: there are several options, and a person picks."""
