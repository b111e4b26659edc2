"""Wiring: opens the storage engine and joins the parts of a server."""
