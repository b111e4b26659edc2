"""The review types, each in its own folder. No type knows another, and no other package knows a type.

A folder holds `declaration.py` (data for every consumer, as `DECLARATION`), `review_type.py` (the rules, as
`REVIEW_TYPE`), `example.py`, `page.html`, `ask_command.py` (`placet ask <type>`) and `mcp_tool.py` (the tool
for assistants). It also holds the styles and scripts that only its page needs. `registry.py` has one line
per type.
"""
