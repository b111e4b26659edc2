"""Tool approval, measured: a whole pause and resume of our loop, of other frameworks, and of our adapters."""
