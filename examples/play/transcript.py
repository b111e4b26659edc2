"""Print what happens in a flow, a line at a time."""


def say(who: str, what: str) -> None:
    """One line: who does what."""
    print(f"{who:>10}  {what}", flush=True)
