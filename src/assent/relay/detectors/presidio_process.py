"""The relay's side of a Presidio process: start it, ask it, and end it when it takes too long."""

import os
import select
import subprocess
import sys
import threading
import time

import msgspec

from assent.errors import Unavailable
from assent.relay.detectors.presidio_wire import HEAD, Asked, Found, framed, size_of

_MODULE = "assent.relay.detectors.presidio_worker"


class PresidioProcess:
    """One process at a time, started again after it was ended; asked by one thread at a time."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ready = False
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
                )

    def ask(self, asked: Asked, deadline: float) -> Found:
        """Ask for one analysis; raises `TimeoutError`, or `Unavailable` with the reason."""
        self.start()
        process = self._process
        if process is None:
            raise Unavailable("The detector is closed.")
        try:
            self._wait_until_ready(process, deadline)
            if process.stdin is not None:
                process.stdin.write(framed(asked))
                process.stdin.flush()
            return self._answer(process, deadline)
        except TimeoutError:
            if self._is_ready:  # while it starts, patience helps; later it does not
                self._end()
            raise
        except (OSError, ValueError, EOFError, msgspec.MsgspecError) as error:
            self._end()
            raise Unavailable(f"The Presidio process failed: {error}.") from error

    def stop(self) -> None:
        """End the process for good."""
        self._closed = True
        self._end()

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> None:
        if self._is_ready:
            return
        try:
            self._answer(process, deadline)
        except Unavailable:
            self._end()
            raise
        self._is_ready = True

    def _answer(self, process: "subprocess.Popen[bytes]", deadline: float) -> Found:
        body = _read(process, size_of(_read(process, HEAD, deadline)), deadline)
        found = msgspec.msgpack.decode(body, type=Found)
        if found.error is not None:
            raise Unavailable(f"The Presidio process failed: {found.error}.")
        return found

    def _end(self) -> None:
        with self._lock:
            process, self._process, self._is_ready = self._process, None, False
        if process is None:
            return
        process.kill()
        process.wait(timeout=10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was not yet written cannot be any more
                    continue


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
