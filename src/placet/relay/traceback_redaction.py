"""Errors without their words: while a message is looked at they may quote it, and others read the logs."""

import traceback
from pathlib import PurePath

MAX_FRAMES = 8


def redact_traceback(error: BaseException) -> str:
    """What kind of error it is and where it came from, the innermost place first."""
    frames = traceback.extract_tb(error.__traceback__)[-MAX_FRAMES:]
    places = [f"{PurePath(one.filename).name}:{one.lineno} ({one.name})" for one in reversed(frames)]
    return " < ".join([type(error).__name__, *places])
