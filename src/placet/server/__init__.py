"""The HTTP server: the API, review pages and inbox on top of the desk; case rules are elsewhere."""
