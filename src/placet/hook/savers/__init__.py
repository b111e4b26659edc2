"""Where threads are kept: one module per kind of storage, each opened only when it is used."""
