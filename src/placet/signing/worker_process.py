"""A worker process that signs for a busy server on another core.

A signature takes longer than any other part of an answer and holds the interpreter lock, also in a thread.
The process gets the key and then the claims through one socket, and ends with it.
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

RESPONSE_TIMEOUT_S = 2.0  # a batch takes milliseconds: after this time the process is considered dead
# Modules are imported from where they are installed, never from the current folder of the server.
COMMAND = (sys.executable, "-P", "-m", "placet.signing.worker_process")

_LENGTH = struct.Struct(">I")
_claims_from = msgspec.msgpack.Decoder(list[Claim]).decode
_values_from = msgspec.msgpack.Decoder(list[str]).decode


class SigningProcess:
    """Signs with one key in another process. Raises ConnectionError if the process is not ready or gone."""

    def __init__(self, key: SigningKey, *, command: Sequence[str] = COMMAND) -> None:
        self._key = key
        self._command = command
        self._asked: deque[asyncio.Future[list[str]]] = deque()
        self._to: asyncio.StreamWriter | None = None
        self._life = asyncio.create_task(self._run())

    @property
    def gone(self) -> bool:
        """Return whether the process has ended."""
        return self._life.done()

    async def sign_all(self, claims: Sequence[Claim]) -> list[str]:
        """Return the detached JWS of each payload, in order."""
        if self._to is None:
            raise ConnectionError
        future: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._asked.append(future)
        self._to.write(_encode_frame(claims))
        try:
            return await asyncio.wait_for(future, RESPONSE_TIMEOUT_S)
        except TimeoutError:
            self._life.cancel()
            raise ConnectionError from None

    async def aclose(self) -> None:
        """Stop the process. Requests in progress fail."""
        self._life.cancel()
        await asyncio.wait([self._life])

    async def _run(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, suppress(OSError, EOFError, msgspec.MsgspecError):  # the caller gets the error
            with theirs:
                process = await asyncio.to_thread(self._start, theirs)
            try:
                await self._converse(*await asyncio.open_connection(sock=ours))
            finally:
                process.kill()
                process.wait()

    def _start(self, theirs: socket.socket) -> "subprocess.Popen[bytes]":
        # In a new session it survives Ctrl-C, so that the server can sign its last answers.
        end = theirs.fileno()
        return subprocess.Popen(self._command, stdin=end, stdout=end, start_new_session=True)  # noqa: S603

    async def _converse(self, replies: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        try:
            to.write(_encode_frame(dump_key(self._key)))
            await _read_frame(replies)  # the process has read the key and is ready
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
    """Return the next message, or nothing if the other side has closed."""
    head = stream.read(_LENGTH.size)
    return stream.read(*_LENGTH.unpack(head)) if len(head) == _LENGTH.size else b""


def serve(asked: BinaryIO, replies: BinaryIO) -> None:
    """Read a key, report ready, then sign batches of claims until the input is closed."""
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
