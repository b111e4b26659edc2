"""Notice while a person is asked that the coding agent does not need the answer any more.

Claude Code does not tell its hook when somebody answers in the terminal, and leaves it running when it ends.
"""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

from placet.hook.coding_agents.host_calls import CallConverter, HostCall

INTERVAL_S = 1.0
MAX_EARLIER_BYTES = 256 * 1024
MAX_LATER_BYTES = 16 * 1024 * 1024


class HostWatch(threading.Thread):
    """Sends this process SIGTERM when the host has ended, or has gone on without the hook."""

    def __init__(self, agent: CallConverter, call: HostCall, host_process: int | None) -> None:
        super().__init__(name="placet-host-watch", daemon=True)
        self._agent = agent
        self._call = call
        self._host_process = host_process
        self._path = Path(call.transcript) if call.transcript else None
        self._size = _get_size(self._path)
        self._ended = threading.Event()

    def run(self) -> None:
        """Look about once a second until `stop` is called."""
        while not self._ended.wait(INTERVAL_S):
            if not self._is_host_alive() or self._is_settled():
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def stop(self) -> None:
        """End the watch."""
        self._ended.set()

    def _is_host_alive(self) -> bool:
        if self._host_process is None:
            return True
        try:
            os.kill(self._host_process, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    def _is_settled(self) -> bool:
        if self._path is None or _get_size(self._path) == self._size:
            return False
        with suppress(OSError), self._path.open("rb") as stream:
            start = max(0, self._size - MAX_EARLIER_BYTES)
            stream.seek(start)
            before = stream.read(self._size - start)
            after = stream.read(MAX_LATER_BYTES)
            return self._agent.is_settled(self._call, _to_lines(before), _to_lines(after))
        return False


def _get_size(path: Path | None) -> int:
    with suppress(OSError):
        return path.stat().st_size if path is not None else 0
    return 0


def _to_lines(content: bytes) -> list[str]:
    return content.decode("utf-8", "replace").splitlines()
