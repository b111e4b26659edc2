"""Inline the stylesheet into the first page that a browser loads, which saves a round trip.

The browser also fetches and caches the file, so that later pages only link to it.
"""

import base64
import hashlib
import re
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from placet.pages.assets import STYLESHEET, digest_files

POLICY = "content-security-policy"
# Inline, relative URLs would change their meaning, and these could end the element or change its digest.
_NEEDS_ITS_FILE = re.compile(rb"url\(|image-set\(|@import|@charset|@namespace|</|<!--|\r|\0", re.IGNORECASE)
_INDENT = re.compile(rb"\n[ \t]+")


class StylesheetInliner:
    """Inlines the stylesheet into pages for browsers that have not cached it."""

    def __init__(self, static_url: str, files: Mapping[str, bytes], cookie: str) -> None:
        """`cookie` is the name of the cookie that says which version the browser has cached."""
        style = _INDENT.sub(b"\n", files[STYLESHEET])
        href = f'<link rel="stylesheet" href="{static_url}/{STYLESHEET}"'
        digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
        self.version = digest_files(files)
        self._cookie = cookie
        self._possible = not _NEEDS_ITS_FILE.search(style)
        self._link = f"{href}>".encode()
        # A stylesheet for no medium is fetched last and blocks nothing.
        self._inside = b"<style>%s</style>\n%s" % (style, f'{href} media="not all">'.encode())
        self._allowed = f"style-src 'self' 'sha256-{digest}'"

    def put_into(self, response: Response, request: Request) -> bool:
        """Inline the stylesheet if the page needs it; return whether it did."""
        body = response.body if hasattr(response, "body") else b""
        known = request.cookies.get(self._cookie) == self.version
        if known or not self._possible or response.status_code != 200 or self._link not in body:
            return False
        response.body = bytes(body).replace(self._link, self._inside, 1)
        response.headers["content-length"] = str(len(response.body))
        response.headers[POLICY] = response.headers[POLICY].replace("style-src 'self'", self._allowed, 1)
        return True
