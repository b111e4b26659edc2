"""Custom `x-…` types: the service declares their actions when it opens a case."""
