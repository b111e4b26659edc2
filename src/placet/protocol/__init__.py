"""The HITL Protocol on the wire, one module per part of the specification. Pure."""
