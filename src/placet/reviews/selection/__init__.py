"""Selection: a person chooses one or more of several options."""
