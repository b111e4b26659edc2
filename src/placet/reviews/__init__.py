"""The review types, each in its own folder. No type knows another, and no other package knows a type.

A folder holds `declaration.py` (data for every consumer), `review_type.py` (the rules, with `REVIEW_TYPE`),
`page.html`, and `mcp_tool.py` if an assistant may ask the question. `registry.py` has one line per type.
"""
