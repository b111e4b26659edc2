"""Work in a forked process, which may be killed."""

import os
import signal
from collections.abc import Callable

LIMIT_S = 120


def run_in_child(work: Callable[[], object]) -> int:
    """Return the wait status of a forked process that does the work."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(LIMIT_S)
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]
