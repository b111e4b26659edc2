"""Start, query and kill a Presidio child process."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

import msgspec

from placet.errors import Unavailable
from placet.relay.detectors.presidio_frames import (
    HEAD_BYTES,
    READY_MARK,
    AnalysisRequest,
    AnalysisResult,
    encode_frame,
    parse_frame_size,
)

_MODULE = "placet.relay.detectors.presidio_worker"


class PresidioProcess:
    """One process at a time, started again after it was ended; asked by one thread at a time."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._process: subprocess.Popen[bytes] | None = None
        self._analyst = 0
        self._before = b""
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process unless it runs; it needs some seconds until it is ready."""
        with self._lock:
            if self._closed:
                raise Unavailable("The detector is closed.")
            if self._process is None:
                # Presidio goes on without a pattern that took too long; we end it long before that.
                environment = {**os.environ, "REGEX_TIMEOUT_SECONDS": "86400"}
                self._process = subprocess.Popen(  # noqa: S603 - our own module in our own Python
                    [sys.executable, "-P", "-m", _MODULE, *([self._model] if self._model else [])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                )

    def ask(self, asked: AnalysisRequest, deadline: float) -> AnalysisResult:
        """Ask for one analysis; raises `TimeoutError`, or `Unavailable` with the reason."""
        self.start()
        process = self._process
        if process is None:
            raise Unavailable("The detector is closed.")
        try:
            self._wait_until_ready(process, deadline)
            if process.stdin is not None:
                process.stdin.write(encode_frame(asked))
                process.stdin.flush()
            return _read_result(process, deadline)
        except TimeoutError:
            self._end_analyst(process)
            raise
        except (OSError, ValueError, EOFError, msgspec.MsgspecError) as error:
            self._end()
            raise Unavailable(f"The Presidio process failed: {error}.") from error

    def stop(self) -> None:
        """End the process for good."""
        self._closed = True
        self._end()

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> None:
        if self._analyst:
            return
        while not self._before.endswith(READY_MARK):
            self._before = (self._before + _read(process, 1, deadline))[-len(READY_MARK) :]
        try:
            self._analyst = _read_result(process, deadline).pid
        except Unavailable:
            self._end()
            raise
        self._before = b""

    def _end_analyst(self, process: "subprocess.Popen[bytes]") -> None:
        """End who takes too long; while Presidio still starts, patience helps more."""
        analyst, self._analyst = self._analyst, 0
        if analyst == process.pid:
            self._end()
        elif analyst and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(analyst, signal.SIGKILL)

    def _end(self) -> None:
        with self._lock:
            process, self._process, self._analyst, self._before = self._process, None, 0, b""
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):  # what was not yet written cannot be any more
                    stream.close()


def _read_result(process: "subprocess.Popen[bytes]", deadline: float) -> AnalysisResult:
    body = _read(process, parse_frame_size(_read(process, HEAD_BYTES, deadline)), deadline)
    found = msgspec.msgpack.decode(body, type=AnalysisResult)
    if found.error is not None:
        raise Unavailable(f"The Presidio process failed: {found.error}.")
    return found


def _read(process: "subprocess.Popen[bytes]", size: int, deadline: float) -> bytes:
    if process.stdout is None:
        raise EOFError("it has no output")
    handle = process.stdout.fileno()
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    content = b""
    while len(content) < size:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimeoutError("Presidio took too long")
        part = os.read(handle, min(size - len(content), 1 << 20))
        if not part:
            raise EOFError("it ended")
        content += part
    return content
