"""Content encodings: read request bodies in gzip within a limit, and compress large replies.

Compression reveals secrets by the length of a reply, if the reply also contains text that an attacker chooses
and a browser sends the credentials on its own (BREACH). So pages with a session are never compressed. Replies
of the API are: they need a key that browsers do not send on their own, and those that contain new tokens are
small. Event streams are not compressed either, because a client must get each event at once.
"""

import asyncio
import gzip
import zlib

from placet.errors import BodyTooLarge, UnsupportedEncoding, ValidationFailed

MIN_COMPRESSED_BYTES = 8 * 1024
LONG_BODY = 64 * 1024  # compressed in a thread: a longer one would delay other requests
LEVEL = 5
GZIP_FORMAT = 31


def decode_body(body: bytes, coding: bytes, *, limit: int) -> bytes:
    """Return a request's body without its content encoding.

    Raises UnsupportedEncoding for any but gzip, BodyTooLarge as soon as the result exceeds the limit, and
    ValidationFailed for data that is not one complete gzip member.
    """
    name = coding.strip().lower()
    if name == b"identity" or not body:
        return body
    if name not in (b"gzip", b"x-gzip"):
        raise UnsupportedEncoding("Send the body without Content-Encoding, or with gzip.")
    inflater = zlib.decompressobj(wbits=GZIP_FORMAT)
    try:
        found = inflater.decompress(body, limit + 1)
    except zlib.error as error:
        raise ValidationFailed("The body is not valid gzip data, as its Content-Encoding says.") from error
    if len(found) > limit:
        raise BodyTooLarge(f"The body is larger than {limit} bytes when it is decompressed.")
    if not inflater.eof or inflater.unused_data:
        raise ValidationFailed("The body is not one complete gzip member.")
    return found


def accepts_gzip(header: str | None) -> bool:
    """Return whether an Accept-Encoding header allows gzip."""
    weights: dict[str, float] = {}
    for offer in (header or "").lower().split(","):
        name, _, weight = offer.partition(";")
        try:
            weights[name.strip()] = float(weight.replace(" ", "").removeprefix("q=") or 1)
        except ValueError:
            weights[name.strip()] = 0
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0))) > 0


async def compress(body: bytes) -> bytes:
    """Return the body in gzip; a long one is compressed in a thread."""
    if len(body) < LONG_BODY:
        return gzip.compress(body, LEVEL, mtime=0)
    return await asyncio.to_thread(gzip.compress, body, LEVEL, mtime=0)
