"""The HTTP door: the API, review pages and the inbox over the desk; no rule of the case lives here."""
