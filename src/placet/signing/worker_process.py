"""A process that signs for a busy server, on a core of its own.

A signature takes longer than any other part of an answer and keeps the interpreter to itself, in whichever
thread it is made. The process gets the key and then the claims through one socket, and ends with it.
"""

import asyncio
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import msgspec

from placet.ports.signer import Claim
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import KeyRing, SigningKey, dump_key, load_key

PATIENCE_S = 2.0  # a group is signed in milliseconds: whoever takes this long is not coming back
# Modules come from where they are installed, never from the folder that a server happens to be started in.
COMMAND = (sys.executable, "-P", "-m", "placet.signing.worker_process")

_LENGTH = struct.Struct(">I")
_claims_from = msgspec.msgpack.Decoder(list[Claim]).decode
_values_from = msgspec.msgpack.Decoder(list[str]).decode


class SigningProcess:
    """Signs with one key elsewhere; raises ConnectionError while it cannot, and for good once it is gone."""

    def __init__(
        self, key: SigningKey, *, command: Sequence[str] = COMMAND, patience_s: float = PATIENCE_S
    ) -> None:
        self._key = key
        self._command = command
        self._patience_s = patience_s
        self._asked: deque[asyncio.Future[list[str]]] = deque()
        self._to: asyncio.StreamWriter | None = None
        self._life = asyncio.create_task(self._live())

    @property
    def gone(self) -> bool:
        """Whether it has ended, for whatever reason."""
        return self._life.done()

    async def sign_all(self, claims: Sequence[Claim]) -> list[str]:
        """The detached JWS over each payload, in their order."""
        if self._to is None:
            raise ConnectionError
        future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        self._to.write(_encode_frame(claims))
        try:
            return await asyncio.wait_for(future, self._patience_s)
        except TimeoutError:
            self._life.cancel()
            raise ConnectionError from None

    async def aclose(self) -> None:
        """End the process; what it has not signed by now it does not sign."""
        self._life.cancel()
        await asyncio.wait([self._life])

    async def _live(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, suppress(OSError, EOFError, msgspec.MsgspecError):  # whoever asked hears of it
            with theirs:
                process = await asyncio.to_thread(self._start, theirs)
            try:
                await self._converse(*await asyncio.open_connection(sock=ours))
            finally:
                process.kill()
                process.wait()

    def _start(self, theirs: socket.socket) -> "subprocess.Popen[bytes]":
        # In a session of its own it outlives an interrupt from the keyboard, as the server's last answers do.
        end = theirs.fileno()
        return subprocess.Popen(self._command, stdin=end, stdout=end, start_new_session=True)  # noqa: S603

    async def _converse(self, replies: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            to.write(_encode_frame(dump_key(self._key)))
            await _read_frame(replies)  # it has read the key and is ready
            self._to = to
            while True:
                values = _values_from(await _read_frame(replies))
                future = self._asked.popleft()
                if not future.done():
                    future.set_result(values)
        finally:
            self._to = None
            to.close()
            for future in self._asked:
                if not future.done():
                    future.set_exception(ConnectionError())


async def _read_frame(stream: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await stream.readexactly(_LENGTH.size))
    return await stream.readexactly(length)


def _encode_frame(message: Any) -> bytes:
    body = msgspec.msgpack.encode(message)
    return _LENGTH.pack(len(body)) + body


def _read(stream: BinaryIO) -> bytes:
    """The next message, or nothing once the other side has gone."""
    head = stream.read(_LENGTH.size)
    return stream.read(*_LENGTH.unpack(head)) if len(head) == _LENGTH.size else b""


def serve(asked: BinaryIO, replies: BinaryIO) -> None:
    """Read a key and say so, then sign one group of claims after the other until nobody asks any more."""
    signer = JwsSigner(KeyRing(current=load_key(msgspec.msgpack.decode(_read(asked), type=str))))
    replies.write(_encode_frame([]))
    replies.flush()
    while claims := _read(asked):
        replies.write(
            _encode_frame([signer.sign(payload, shown=shown) for payload, shown in _claims_from(claims)])
        )
        replies.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
