"""A synchronous client for services that run Placet as a separate server: Flask, Django, scripts."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

from placet.errors import PlacetError, Unavailable
from placet.http.operations import ServerRefused
from placet.protocol.addresses import is_secure_or_loopback

__all__ = ["TERMINAL", "PlacetClient", "ServerRefused"]

TERMINAL = frozenset({"completed", "expired", "cancelled"})


class PlacetClient:
    """Opens, follows and withdraws cases on a Placet server.

    Raises ServerRefused for an error response, and Unavailable if the server cannot be reached.
    """

    def __init__(self, base_url: str, key: str, *, timeout: float = 10.0) -> None:
        if not is_secure_or_loopback(base_url):
            raise PlacetError("base_url must be https://… or on loopback, since the API key is sent to it.")
        if not _fits_in_a_header(key):
            raise PlacetError("key is not an API key: it must be printable ASCII characters on one line.")
        self._base = base_url.rstrip("/")
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {key}"}, timeout=timeout, follow_redirects=False
        )

    def open(
        self, type: str, prompt: str, *, idempotency_key: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Open a case; return the 202 body, to be passed to the agent unchanged.

        Raises PlacetError for an `idempotency_key` that is not valid in a header.
        """
        if idempotency_key and not _fits_in_a_header(idempotency_key):
            raise PlacetError("idempotency_key must be printable ASCII characters: it is sent as a header.")
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        body = {"type": type, "prompt": prompt, **fields}
        return self._call("POST", "/v1/cases", json=body, headers=headers)

    def status(self, case_id: str) -> dict[str, Any]:
        """Return the status of the case: the poll response."""
        return self._call("GET", f"/v1/reviews/{quote(case_id, safe='')}/status")

    def wait(
        self,
        case_id: str,
        *,
        interval: float = 2.0,
        at_most: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> dict[str, Any]:
        """Poll until the case is closed or `at_most` seconds have passed; return the last poll response.

        Waits longer after a 429; raises every other error response.
        """
        waited = 0.0
        while True:
            pause = interval
            try:
                found = self.status(case_id)
            except ServerRefused as refused:
                if refused.status != 429 or (at_most is not None and waited >= at_most):
                    raise
                pause = max(interval, float(refused.details.get("retry_after", interval)))
            else:
                if found["status"] in TERMINAL or (at_most is not None and waited >= at_most):
                    return found
            sleep(pause)
            waited += pause

    def cancel(self, case_id: str, *, reason: str | None = None) -> dict[str, Any]:
        """Withdraw the case."""
        return self._call("POST", f"/v1/reviews/{quote(case_id, safe='')}/cancel", json={"reason": reason})

    def use_grant(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        key: str,
        call_id: str,
        agent: str | None = None,
        thread_id: str | None = None,
    ) -> dict[str, Any] | None:
        """Use a grant for this call and return it; None if no grant covers the call and a person must decide.

        `key` identifies this call: a retry with the same key is not counted again.
        """
        asked = {"key": key, "call_id": call_id, "tool": tool, "arguments": arguments}
        answer = self._call("POST", "/v1/grants/use", json={**asked, "agent": agent, "thread_id": thread_id})
        grant = answer.get("grant")
        if grant is not None and not (isinstance(grant, dict) and isinstance(grant.get("id"), str)):
            raise Unavailable(f"The server at {self._base} returned a grant that cannot be read.")
        return grant

    def grants(self, *, before: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Return a page of your grants, newest first; `next` is the `before` of the next page."""
        params = {"limit": str(limit), **({"before": before} if before else {})}
        return self._call("GET", "/v1/grants", params=params)

    def grant(self, grant_id: str) -> dict[str, Any]:
        """Return one grant: its remaining uses, and whether calls that it covered may still run."""
        return self._call("GET", f"/v1/grants/{quote(grant_id, safe='')}")

    def revoke_grant(self, grant_id: str) -> dict[str, Any]:
        """Revoke a grant; revoking it again changes nothing."""
        return self._call("POST", f"/v1/grants/{quote(grant_id, safe='')}/revoke")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        try:
            answer = self._http.request(method, self._base + path, **request)
        except httpx.HTTPError as error:
            raise Unavailable(f"The server at {self._base} cannot be reached: {error}.") from error
        try:
            body = answer.json()
        except ValueError as error:
            raise Unavailable(f"The server at {self._base} did not return JSON.") from error
        if answer.status_code >= 400 or not isinstance(body, dict):
            raise ServerRefused(answer.status_code, body if isinstance(body, dict) else {})
        return body


def _fits_in_a_header(text: str) -> bool:
    return text.isascii() and text.isprintable()
