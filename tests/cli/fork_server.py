"""A program that has imported every command, and forks itself into one for each client that connects.

`python -m tests.cli.fork_server SOCKET` prints a line once it listens, and ends when its standard input does.
A client sends its arguments, folder, environment and standard streams, then signals, each as one byte, and
receives the exit code. When a client ends before that, its command is killed.
"""

import gc
import os
import selectors
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from runpy import run_module

from placet.cli import main
from placet.cli.main import COMMANDS

# What the commands import only while they run.
IMPORTED_LATE = ("placet.bootstrap", "placet.mcp", "uvloop")
LARGEST_MESSAGE = 1 << 20
MODULE_RUNNER = "run-module"  # under this name a client wants what `python -m` runs


class ForkServer:
    """Forks a command for each connection and reports its exit code there."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen(64)
        self._wakeup, self._wakeup_writer = socket.socketpair()
        self._wakeup_writer.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._connections: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Return only in a child, which then is to run the command."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup_writer.fileno())
        for source in (sys.stdin, self._listener, self._wakeup):
            self._selector.register(source, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    self._end()
                elif key.fileobj is self._wakeup:
                    self._wakeup.recv(LARGEST_MESSAGE)
                    self._report_ended()
                elif key.fileobj is not self._listener:
                    self._forward_signals(key.data)
                elif self._fork():
                    return

    def _fork(self) -> bool:
        """Start a command for a new client; return whether this is the child."""
        connection, _ = self._listener.accept()
        message, streams = receive(connection)
        pid = os.fork()
        if pid:
            for stream in streams:
                os.close(stream)
            self._connections[pid] = connection
            self._selector.register(connection, selectors.EVENT_READ, pid)
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        others = (self._listener, self._wakeup, self._wakeup_writer, *self._connections.values())
        for other in (connection, *others):
            other.close()
        become(message, streams)
        return True

    def _report_ended(self) -> None:
        while self._connections:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            connection = self._connections.pop(pid)
            if connection.fileno() != -1:
                self._selector.unregister(connection)
                with suppress(OSError):  # the client may have been killed at the same time
                    connection.sendall(b"%d" % os.waitstatus_to_exitcode(status))
                connection.close()

    def _forward_signals(self, pid: int) -> None:
        connection = self._connections.get(pid)
        if connection is None or connection.fileno() == -1:
            return  # it ended while this round of the loop was under way
        try:
            numbers = connection.recv(LARGEST_MESSAGE)
        except OSError:
            numbers = b""
        if not numbers:
            self._selector.unregister(connection)
            connection.close()
        for number in numbers or [signal.SIGKILL]:
            os.kill(pid, number)

    def _end(self) -> None:
        for pid in self._connections:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """Return a client's first message, which begins with its length, and the streams that came with it."""
    received, streams, _, _ = socket.recv_fds(connection, LARGEST_MESSAGE, 3)
    length, _, message = received.partition(b"\0")
    while len(message) < int(length):
        message += connection.recv(LARGEST_MESSAGE)
    return message, streams


def become(message: bytes, streams: list[int]) -> None:
    """Turn this process into what the client described: arguments, folder, environment and streams."""
    count, folder, umask, *words = message.split(b"\0")
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.umask(int(umask))
    arguments, environment = words[: int(count)], words[int(count) :]
    sys.argv = [os.fsdecode(argument) for argument in arguments]
    os.environ.clear()
    for pair in environment:
        name, _, value = pair.partition(b"=")
        os.environb[name] = value


if __name__ == "__main__":
    for module in (*(module for module, _ in COMMANDS.values()), *IMPORTED_LATE):
        import_module(module)
    gc.collect()
    gc.freeze()
    server = ForkServer(sys.argv[1])
    print("listening", flush=True)
    server.serve()
    if Path(sys.argv[0]).name == MODULE_RUNNER:
        del sys.argv[0]
        run_module(sys.argv[0], run_name="__main__", alter_sys=True)
        sys.exit()
    main()
