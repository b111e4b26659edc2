"""What travels on the wire, one module per idea of the specification; nothing here acts or reads a clock."""
