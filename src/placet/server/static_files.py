"""Serve the files that pages link to from memory, under URLs that change with their content."""

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from placet.errors import CaseNotFound
from placet.http.compression import accepts_gzip
from placet.http.route import HttpApi, pages
from placet.pages.assets import digest_files

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
FOR_EVER = "public, max-age=31536000, immutable"
FOR_A_WHILE = "public, max-age=300"
# An SVG opened directly is a document of this origin: it may render and nothing else.
ALONE = "default-src 'none'; style-src 'unsafe-inline'; sandbox"


class StaticFiles(HttpApi):
    """Serves files by name, plain or compressed in advance."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._packed = {name: gzip.compress(body, mtime=0) for name, body in files.items()}
        self._etags = {name: f'"{hashlib.sha256(body).hexdigest()[:16]}"' for name, body in files.items()}
        self._version = digest_files(files)

    @pages.get("/static/{version}/{name}", "readVersionedFile")
    @pages.get("/static/{name}", "readFile")
    async def serve(self, request: Request) -> Response:
        """Return one file; under its current version's URL it may be cached forever."""
        name = request.path_params["name"]
        if name not in self._files:
            raise CaseNotFound("There is nothing at this address.")
        is_current = request.path_params.get("version") == self._version
        headers = {
            "etag": self._etags[name],
            "cache-control": FOR_EVER if is_current else FOR_A_WHILE,
            "content-security-policy": ALONE,
            "vary": "Accept-Encoding",
            "x-content-type-options": "nosniff",
        }
        if request.headers.get("if-none-match") == self._etags[name]:
            return Response(status_code=304, headers=headers)
        body = self._files[name]
        if accepts_gzip(request.headers.get("accept-encoding")) and len(self._packed[name]) < len(body):
            body = self._packed[name]
            headers["content-encoding"] = "gzip"
        return Response(body, headers=headers, media_type=TYPES[Path(name).suffix])
