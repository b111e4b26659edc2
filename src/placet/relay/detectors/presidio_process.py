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

from placet.errors import DetectorBusy, Unavailable
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
    """Runs one Presidio process and restarts it after it ends. Only one thread may use it at a time."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._process: subprocess.Popen[bytes] | None = None
        self._worker_pid = 0
        self._startup_output = b""
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process if it does not run. It is ready after a few seconds."""
        with self._lock:
            if self._closed:
                raise Unavailable("The detector is closed.")
            if self._process is None:
                # Presidio would skip a pattern that takes too long. The relay kills the worker before that.
                environment = {**os.environ, "REGEX_TIMEOUT_SECONDS": "86400"}
                self._process = subprocess.Popen(  # noqa: S603 - our own module in our own Python
                    [sys.executable, "-P", "-m", _MODULE, *([self._model] if self._model else [])],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                )

    def wait_until_ready(self, deadline: float) -> None:
        """Wait until Presidio is loaded. Raises `DetectorBusy` at the deadline, or `Unavailable`."""
        process = self._get_process()
        try:
            self._wait_until_ready(process, deadline)
        except TimeoutError as timeout:
            raise DetectorBusy("Presidio is starting. Try again later.") from timeout
        except (OSError, ValueError, EOFError, msgspec.MsgspecError) as error:
            self._kill_process()
            raise Unavailable(f"The Presidio process failed: {error}.") from error

    def analyze(self, request: AnalysisRequest, within_s: float) -> AnalysisResult:
        """Return the result of one request. Raises `TimeoutError`, or `Unavailable` with the reason.

        Call `wait_until_ready` before.
        """
        process = self._get_process()
        deadline = time.monotonic() + within_s
        try:
            self._wait_until_ready(process, deadline)
            if process.stdin is not None:
                process.stdin.write(encode_frame(request))
                process.stdin.flush()
            return _read_result(process, deadline)
        except TimeoutError:
            self._kill_worker(process)
            raise
        except (OSError, ValueError, EOFError, msgspec.MsgspecError) as error:
            self._kill_process()
            raise Unavailable(f"The Presidio process failed: {error}.") from error

    def _get_process(self) -> "subprocess.Popen[bytes]":
        self.start()
        process = self._process
        if process is None:
            raise Unavailable("The detector is closed.")
        return process

    def stop(self) -> None:
        """Stop the process. It cannot be started again."""
        self._closed = True
        self._kill_process()

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]", deadline: float) -> None:
        if self._worker_pid:
            return
        while not self._startup_output.endswith(READY_MARK):
            self._startup_output = (self._startup_output + _read(process, 1, deadline))[-len(READY_MARK) :]
        try:
            self._worker_pid = _read_result(process, deadline).pid
        except Unavailable:
            self._kill_process()
            raise
        self._startup_output = b""

    def _kill_worker(self, process: "subprocess.Popen[bytes]") -> None:
        """Kill the worker, but not a process that still loads Presidio: a restart would take longer."""
        worker_pid, self._worker_pid = self._worker_pid, 0
        if worker_pid == process.pid:
            self._kill_process()
        elif worker_pid and process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(worker_pid, signal.SIGKILL)

    def _kill_process(self) -> None:
        with self._lock:
            process, self._process = self._process, None
            self._worker_pid, self._startup_output = 0, b""
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):  # closing fails if buffered bytes cannot be written
                    stream.close()


def _read_result(process: "subprocess.Popen[bytes]", deadline: float) -> AnalysisResult:
    body = _read(process, parse_frame_size(_read(process, HEAD_BYTES, deadline)), deadline)
    result = msgspec.msgpack.decode(body, type=AnalysisResult)
    if result.error is not None:
        raise Unavailable(f"The Presidio process failed: {result.error}.")
    return result


def _read(process: "subprocess.Popen[bytes]", size: int, deadline: float) -> bytes:
    if process.stdout is None:
        raise EOFError("it has no output")
    handle = process.stdout.fileno()
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    content = b""
    while len(content) < size:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not poll.poll(remaining * 1000):
            raise TimeoutError("Presidio took too long")
        part = os.read(handle, min(size - len(content), 1 << 20))
        if not part:
            raise EOFError("it ended")
        content += part
    return content
