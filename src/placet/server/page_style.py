"""The stylesheet inside the first page that a browser sees here, which is usable without another round trip.

The file itself is fetched meanwhile and kept for ever, so that later pages need only name it.
"""

import base64
import hashlib
import re
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from placet.pages.assets import STYLESHEET, fingerprint

STYLE_COOKIE = "placet_style"
POLICY = "content-security-policy"
# Beside a page, addresses would lead elsewhere, and these could end the element early or change its digest.
_NEEDS_ITS_FILE = re.compile(rb"url\(|image-set\(|@import|@charset|@namespace|</|<!--|\r|\0", re.IGNORECASE)
_INDENT = re.compile(rb"\n[ \t]+")


class FirstStyle:
    """Puts the stylesheet into pages for browsers that have none yet."""

    def __init__(self, static_url: str, files: Mapping[str, bytes]) -> None:
        style = _INDENT.sub(b"\n", files[STYLESHEET])
        href = f'<link rel="stylesheet" href="{static_url}/{STYLESHEET}"'
        digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
        self.version = fingerprint(files)
        self._possible = not _NEEDS_ITS_FILE.search(style)
        self._link = f"{href}>".encode()
        # A sheet for no medium is fetched last and holds up nothing.
        self._inside = b"<style>%s</style>\n%s" % (style, f'{href} media="not all">'.encode())
        self._allowed = f"style-src 'self' 'sha256-{digest}'"

    def put_into(self, response: Response, request: Request) -> bool:
        """Whether this is a page that needed the stylesheet and now has it; a refusal sets no cookie."""
        body = response.body if hasattr(response, "body") else b""
        known = request.cookies.get(STYLE_COOKIE) == self.version
        if known or not self._possible or response.status_code != 200 or self._link not in body:
            return False
        response.body = bytes(body).replace(self._link, self._inside, 1)
        response.headers["content-length"] = str(len(response.body))
        response.headers[POLICY] = response.headers[POLICY].replace("style-src 'self'", self._allowed, 1)
        return True
