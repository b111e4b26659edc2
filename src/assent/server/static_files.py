"""The few files that pages link to, served from memory."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from assent.errors import CaseNotFound

TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class StaticFiles:
    """Files by their names."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    @property
    def routes(self) -> list[Route]:
        """Where they are."""
        return [Route("/static/{name}", self.serve)]

    async def serve(self, request: Request) -> Response:
        """One file; it may be kept a while and is asked for again by its digest."""
        name = request.path_params["name"]
        if name not in self._files:
            raise CaseNotFound("There is nothing at this address.")
        body = self._files[name]
        etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        headers = {"etag": etag, "cache-control": "public, max-age=300", "x-content-type-options": "nosniff"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=TYPES[Path(name).suffix])
