"""Agents, callers, groups and tenants, from the settings and the store."""
