"""Who is there and who may call whom: agents, callers, groups, tenants, from the settings and the store."""
