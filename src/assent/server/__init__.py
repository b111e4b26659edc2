"""The HTTP door: an ASGI application over the desk; no rule of the case lives here."""
