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

    Raises ServerRefused for any error answer, Unavailable when the server cannot be reached.
    """

    def __init__(self, base_url: str, key: str, *, timeout: float = 10.0) -> None:
        if not is_secure_or_loopback(base_url):
            raise PlacetError("The server's address must be https://… or on loopback: a key travels with it.")
        if not _fits_in_a_header(key):
            raise PlacetError("This is no API key: a key is one line of letters, digits and signs.")
        self._base = base_url.rstrip("/")
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {key}"}, timeout=timeout, follow_redirects=False
        )

    def open(
        self, type: str, prompt: str, *, idempotency_key: str | None = None, **fields: Any
    ) -> dict[str, Any]:
        """Open a case; returns the 202 body to hand on to the agent as it is.

        Raises PlacetError for an `idempotency_key` that no header can carry.
        """
        if idempotency_key and not _fits_in_a_header(idempotency_key):
            raise PlacetError("An idempotency_key travels as a header: printable ASCII characters only.")
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        body = {"type": type, "prompt": prompt, **fields}
        return self._call("POST", "/v1/cases", json=body, headers=headers)

    def status(self, case_id: str) -> dict[str, Any]:
        """Where the case stands: the poll response."""
        return self._call("GET", f"/v1/reviews/{quote(case_id, safe='')}/status")

    def wait(
        self,
        case_id: str,
        *,
        interval: float = 2.0,
        at_most: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> dict[str, Any]:
        """Poll until the case is closed, or until `at_most` seconds have passed; returns the last state.

        Told to slow down, it does; any other refusal is raised.
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
        """The grant under which this call may run without asking, with one use spent; None: ask a person.

        `key` names this one call: a retry under it is not counted again.
        """
        asked = {"key": key, "call_id": call_id, "tool": tool, "arguments": arguments}
        answer = self._call("POST", "/v1/grants/use", json={**asked, "agent": agent, "thread_id": thread_id})
        grant = answer.get("grant")
        if grant is not None and not (isinstance(grant, dict) and isinstance(grant.get("id"), str)):
            raise Unavailable(f"The server at {self._base} answered with no grant that can be read.")
        return grant

    def grants(self, *, before: str | None = None, limit: int = 50) -> dict[str, Any]:
        """A page of what people allowed you, newest first; `next` is the `before` of the page after it."""
        params = {"limit": str(limit), **({"before": before} if before else {})}
        return self._call("GET", "/v1/grants", params=params)

    def grant(self, grant_id: str) -> dict[str, Any]:
        """One grant: what is left of it, and whether calls that it covered may still run."""
        return self._call("GET", f"/v1/grants/{quote(grant_id, safe='')}")

    def revoke_grant(self, grant_id: str) -> dict[str, Any]:
        """End a grant; again changes nothing."""
        return self._call("POST", f"/v1/grants/{quote(grant_id, safe='')}/revoke")

    def close(self) -> None:
        """Close connections."""
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
            raise Unavailable(f"The server at {self._base} did not answer in JSON.") from error
        if answer.status_code >= 400 or not isinstance(body, dict):
            raise ServerRefused(answer.status_code, body if isinstance(body, dict) else {})
        return body


def _fits_in_a_header(text: str) -> bool:
    return text.isascii() and text.isprintable()
