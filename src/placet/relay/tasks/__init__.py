"""Tasks: their owner, their names, and the view of tasks that the relay answers for."""
