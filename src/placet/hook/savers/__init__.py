"""Savers store threads: one module per kind of storage, imported only when it is used."""
