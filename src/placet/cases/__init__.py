"""The life of a case as pure data and one state machine: commands, events, transitions."""
