"""The program of the worker process that runs rules of review types, with limits on memory and time.

It reads tuples of a type's name, a method's name and arguments. It writes the outcome of each with its
length first. It ends with its input.
"""

import pickle
import signal
import struct
import sys
from typing import Any, BinaryIO

from placet.errors import PlacetError
from placet.reviews.registry import load_named_type

MAX_MEMORY_BYTES = 1 << 30
"""The address space of the process, of which the interpreter takes about a tenth."""
MAX_DURATION_S = 10
"""After this time the process ends by itself, in case the server that would stop it is gone."""
LENGTH = struct.Struct(">I")
READY, RETURNED, RAISED, FAILED = "ready", "returned", "raised", "failed"

EvaluationOutcome = tuple[str, Any]


def limit_resources() -> None:
    """Limit the memory of this process, and let it end without a core dump."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MAX_MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def evaluate(name: str, method: str, arguments: tuple[Any, ...]) -> EvaluationOutcome:
    """Return what the method of this review type returns or raises."""
    try:
        return RETURNED, getattr(load_named_type(name), method)(*arguments)
    except PlacetError as error:
        return RAISED, error
    except Exception as error:  # its text may hold a value of the answer
        return FAILED, type(error).__name__


def serve(requests: BinaryIO, outcomes: BinaryIO) -> None:
    """Report ready, then evaluate one request after the other until the input is closed."""
    _write(outcomes, (READY, None))
    while head := requests.read(LENGTH.size):
        body = requests.read(*LENGTH.unpack(head))
        signal.alarm(MAX_DURATION_S)
        _write(outcomes, evaluate(*pickle.loads(body)))  # noqa: S301 - the server wrote it
        signal.alarm(0)


def _write(outcomes: BinaryIO, outcome: EvaluationOutcome) -> None:
    outcomes.write(encode_frame(outcome))
    outcomes.flush()


def encode_frame(value: Any) -> bytes:
    """Return the value as bytes, with their number first."""
    body = pickle.dumps(value)
    return LENGTH.pack(len(body)) + body


if __name__ == "__main__":
    limit_resources()
    serve(sys.stdin.buffer, sys.stdout.buffer)
