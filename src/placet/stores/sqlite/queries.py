"""The statements of queries.sql by name."""

from placet.stores.sql.queries import load_queries

QUERIES = load_queries("placet.stores.sqlite")
