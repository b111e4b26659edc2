"""A terminal of a given width, as a person has one in front of them."""

import codecs
import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.asking import Desk
from tests.cli.process import COMMAND, environment
from tests.waiting import PATIENCE_S, eventually


class Terminal:
    """A terminal of a given width, and the command in it."""

    def __init__(self, desk: Desk, columns: int, arguments: tuple[str, ...], **env: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            [COMMAND, *arguments],
            cwd=desk.folder,
            env=environment({**desk.env, "COLUMNS": "200", "TERM": "xterm-256color", **env}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        whole = codecs.getincrementaldecoder("utf-8")()  # a character may come in two pieces
        try:
            while chunk := os.read(self._ours, 65536):
                self.seen += whole.decode(chunk)
        except OSError:  # the other side has closed
            return

    def wait_for(self, words: str) -> None:
        eventually(lambda: words in self.seen)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def close(self) -> int:
        self.process.kill()
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        os.close(self._ours)
        return code

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)


@contextmanager
def terminal(desk: Desk, columns: int, *arguments: str, **env: str) -> Iterator[Terminal]:
    opened = Terminal(desk, columns, arguments, **env)
    try:
        yield opened
    finally:
        opened.close()
