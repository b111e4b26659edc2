"""Compress the responses of Starlette routes, whole or in pieces."""

import zlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator

from starlette.responses import Response, StreamingResponse

from placet.http.compression import GZIP_FORMAT, LEVEL, MIN_COMPRESSED_BYTES, accepts_gzip, compress


async def compress_response(response: Response, accept_encoding: str | None) -> Response:
    """Return the response, compressed if it is large and the client accepts that.

    A response with an ETag stays as it is: each encoding would need an ETag of its own.
    """
    headers = response.headers
    if "content-encoding" in headers or "etag" in headers or response.status_code != 200:
        return response
    streamed = isinstance(response, StreamingResponse)
    if streamed and headers.get("content-type", "").startswith("text/event-stream"):
        return response
    if not streamed and len(response.body) < MIN_COMPRESSED_BYTES:
        return response
    headers.add_vary_header("Accept-Encoding")
    if not accepts_gzip(accept_encoding):
        return response
    headers["content-encoding"] = "gzip"
    if isinstance(response, StreamingResponse):
        response.body_iterator = _compress_pieces(response.body_iterator)
    else:
        response.body = await compress(bytes(response.body))
        headers["content-length"] = str(len(response.body))
    return response


async def _compress_pieces(pieces: AsyncIterable[str | bytes | memoryview]) -> AsyncIterator[bytes]:
    """Yield the pieces compressed; each can be read as soon as it arrives."""
    packer = zlib.compressobj(LEVEL, wbits=GZIP_FORMAT)
    try:
        async for piece in pieces:
            data = piece.encode() if isinstance(piece, str) else piece
            yield packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH)
        yield packer.flush()
    finally:
        if isinstance(pieces, AsyncGenerator):  # also when the client disconnects early
            await pieces.aclose()
