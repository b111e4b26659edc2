"""A synchronous client for services that run Placet as a separate server: Flask, Django, scripts."""

import socket
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Self

import httpx

from placet.errors import PlacetError, ServerRefused, Unavailable
from placet.http.agent_requests import read_agent_request
from placet.http.client_operations import (
    ANSWER_CASE,
    CANCEL_CASE,
    FOLLOW_CASE,
    LIST_CASES,
    LIST_GRANTS,
    OPEN_CASE,
    POLL_CASE,
    REPORT_CALLS,
    REVOKE_GRANT,
    SHOW_GRANT,
    USE_GRANT,
)
from placet.http.route import OperationAddress
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.stream import FINAL

CLOSE_WAIT_S = 2.0
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
        self._requests = 0
        self._streams: weakref.WeakSet[httpx.Response] = weakref.WeakSet()
        self._is_idle = threading.Condition()

    def open(
        self,
        type: str,
        prompt: str,
        *,
        idempotency_key: str | None = None,
        agent_request: Any = None,
        agent_key: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> dict[str, Any]:
        """Open a case; return the 202 body, to be passed to the agent unchanged.

        `agent_request` is the request that the agent sent to you: of Flask or Django, or a WSGI environ. With
        the credential in it, the agent may poll and stream the case; the server gets its digest only. The
        `hitl_callback_url` of its JSON body is called back if that is possible; a WSGI body is not read.
        `agent_key` is the public key with which you verified the signature of that request, as JSON Web Key:
        the agent may then poll and stream the case with signed requests.
        Raises PlacetError for an `idempotency_key` that is not valid in a header.
        """
        if idempotency_key and not _fits_in_a_header(idempotency_key):
            raise PlacetError("idempotency_key must be printable ASCII characters: it is sent as a header.")
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        asked = {} if agent_request is None else read_agent_request(agent_request)
        if agent_key is not None:
            asked["reader"] = {**asked.get("reader", {}), "public_key": dict(agent_key)}
        body = {"type": type, "prompt": prompt, **asked, **fields}
        return self._call(OPEN_CASE, json=body, headers=headers)

    def status(self, case_id: str) -> dict[str, Any]:
        """Return the status of the case: the poll response."""
        return self._call(POLL_CASE, {"case_id": case_id})

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

    def wait_for_end(self, case_id: str, *, at_most: float) -> bool:
        """Follow the case's events; return whether it closed within `at_most` seconds."""
        ends, url = monotonic() + at_most, FOLLOW_CASE.url(self._base, case_id=case_id)
        usual = self._http.timeout
        timeout = httpx.Timeout(usual.connect, read=max(0.1, at_most), write=usual.write, pool=usual.pool)
        try:
            with self._http.stream(FOLLOW_CASE.method, url, timeout=timeout) as stream:
                if stream.status_code >= 400:
                    stream.read()
                    raise ServerRefused.of(stream.status_code, _read_object(stream))
                self._streams.add(stream)
                for line in stream.iter_lines():
                    name = line.removeprefix("event: ")
                    if name in FINAL:
                        return True
                    if monotonic() >= ends:
                        return False
                return False
        except httpx.ReadTimeout:
            return False
        except httpx.HTTPError as error:
            raise Unavailable(f"The server at {self._base} cannot be reached: {error}.") from error

    def cases(
        self, *, status: str | None = None, before: str | None = None, limit: int = 50
    ) -> dict[str, Any]:
        """Return a page of your cases, newest first; `next` is the `before` of the next page."""
        params = {"limit": str(limit), "status": status, "before": before}
        return self._call(LIST_CASES, params={name: value for name, value in params.items() if value})

    def cancel(self, case_id: str, *, reason: str | None = None) -> dict[str, Any]:
        """Withdraw the case."""
        return self._call(CANCEL_CASE, {"case_id": case_id}, json={"reason": reason})

    def answer(
        self,
        case_id: str,
        action: str,
        data: Mapping[str, Any] | None = None,
        *,
        responded_by: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Send what a person answered on your own page, the `review_url` of the case.

        `responded_by` is their `name` and `email`, if you have verified who they are.
        """
        body = {"action": action, "data": dict(data or {})}
        who = {} if responded_by is None else {"responded_by": dict(responded_by)}
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._call(ANSWER_CASE, {"case_id": case_id}, json={**body, **who}, headers=headers)

    def report_calls(self, case_id: str, receipts: Sequence[Mapping[str, str]]) -> dict[str, Any]:
        """Report what became of the calls of a decided case; the first receipt of each call counts.

        A receipt has `call_id`, `outcome` (`ran`, or why the call did not do its work) and perhaps `at`.
        """
        return self._call(REPORT_CALLS, {"case_id": case_id}, json={"receipts": list(receipts)})

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
        answer = self._call(USE_GRANT, json={**asked, "agent": agent, "thread_id": thread_id})
        grant = answer.get("grant")
        if grant is not None and not (isinstance(grant, dict) and isinstance(grant.get("id"), str)):
            raise Unavailable(f"The server at {self._base} returned a grant that cannot be read.")
        return grant

    def grants(self, *, before: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Return a page of your grants, newest first; `next` is the `before` of the next page."""
        params = {"limit": str(limit), **({"before": before} if before else {})}
        return self._call(LIST_GRANTS, params=params)

    def grant(self, grant_id: str) -> dict[str, Any]:
        """Return one grant: its remaining uses, and whether calls that it covered may still run."""
        return self._call(SHOW_GRANT, {"grant_id": grant_id})

    def revoke_grant(self, grant_id: str) -> dict[str, Any]:
        """Revoke a grant; revoking it again changes nothing."""
        return self._call(REVOKE_GRANT, {"grant_id": grant_id})

    def close(self) -> None:
        """Wait a moment for requests in other threads, such as receipts, and close the connections."""
        with self._is_idle:
            self._is_idle.wait_for(lambda: self._requests == 0, CLOSE_WAIT_S)
        for stream in list(self._streams):
            _shut_down(stream)
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _call(
        self, operation: OperationAddress, variables: Mapping[str, str] = {}, **request: Any
    ) -> dict[str, Any]:
        url = operation.url(self._base, **variables)
        with self._is_idle:
            self._requests += 1
        try:
            answer = self._http.request(operation.method, url, **request)
        except httpx.HTTPError as error:
            raise Unavailable(f"The server at {self._base} cannot be reached: {error}.") from error
        finally:
            with self._is_idle:
                self._requests -= 1
                self._is_idle.notify_all()
        try:
            body = answer.json()
        except ValueError as error:
            raise Unavailable(f"The server at {self._base} did not return JSON.") from error
        if answer.status_code >= 400 or not isinstance(body, dict):
            raise ServerRefused.of(answer.status_code, body if isinstance(body, dict) else {})
        return body


def _read_object(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _shut_down(stream: httpx.Response) -> None:
    """End a stream that another thread reads: that thread sees the end of the stream."""
    with suppress(Exception):
        connection = stream.extensions["network_stream"].get_extra_info("socket")
        connection.shutdown(socket.SHUT_RDWR)


def _fits_in_a_header(text: str) -> bool:
    return text.isascii() and text.isprintable()
