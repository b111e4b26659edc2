"""The PostgreSQL engine, for several servers on one database."""
