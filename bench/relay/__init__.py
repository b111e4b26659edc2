"""The relay measured: against a raw proxy in the same process, with a bare agent in a process of its own."""
