"""The relay's own API: approvals, policies, agents, groups and the audit, before HTTP and after it."""
