"""A case in, HTML out; no HTTP lives here."""
