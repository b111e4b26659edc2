"""The life of a case as pure data and one state machine; nothing here acts or reads a clock."""
