"""Format errors without their messages, which may quote the message being inspected."""

import traceback
from pathlib import PurePath

MAX_FRAMES = 8


def redact_traceback(error: BaseException) -> str:
    """Return the error's type and its stack frames, innermost first, without its message."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    places = [f"{PurePath(one.filename).name}:{one.lineno} ({one.name})" for one in reversed(frames)]
    return " < ".join([type(error).__name__, *places])
