"""Fetch default form values from `default_ref` (spec 10.3.1): through the address guard, with a token."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from placet.cases.case import Case, Offer
from placet.errors import PlacetError
from placet.ports.fetcher import Fetcher
from placet.protocol.fields import Field
from placet.protocol.form_answers import find_field_problem
from placet.protocol.forms import parse_form

FETCH_TIMEOUT = timedelta(seconds=3)
CACHE_FOR = timedelta(minutes=5)
MAX_BODY_BYTES = 64 * 1024
CACHE_SIZE = 1000

TokenMaker = Callable[[Case, str, str], Awaitable[str]]

log = logging.getLogger("placet.prefill")


class Prefill:
    """Fetches the default values of a form; values that cannot be fetched or are invalid are left out."""

    def __init__(
        self, fetcher: Fetcher, clock: Callable[[], datetime], make_token: TokenMaker | None = None
    ) -> None:
        """`make_token` returns the token that the request for a field of a case carries."""
        self._fetcher = fetcher
        self._make_token = make_token
        self._now = clock
        self._cache: dict[str, tuple[datetime, dict[str, Any]]] = {}

    async def values(self, case: Case, offer: Offer) -> dict[str, Any]:
        """Return the default values by field key."""
        fields = _list_fields_with_reference(offer)
        if not fields or not case.live:
            return {}
        cached = self._cache.get(case.id)
        if cached is not None and self._now() < cached[0]:
            return cached[1]
        found = await asyncio.gather(*(self._fetch(case, field) for field in fields))
        values = {field.key: value for field, value in zip(fields, found, strict=True) if value is not None}
        if len(self._cache) >= CACHE_SIZE:
            self._cache.clear()
        self._cache[case.id] = (self._now() + CACHE_FOR, values)
        return values

    async def _fetch(self, case: Case, field: Field) -> Any:
        url = field.default_ref or ""
        try:
            bearer = await self._make_token(case, url, field.key) if self._make_token is not None else None
            reply = await self._fetcher.fetch(
                url, timeout_for=FETCH_TIMEOUT, max_bytes=MAX_BODY_BYTES, bearer=bearer
            )
        except PlacetError as error:
            log.warning("prefill_failed field=%s error=%s", field.key, error.message)
            return None
        if reply.status != 200 or reply.truncated:
            return None
        value = _read(reply.body, reply.content_type)
        return value if find_field_problem(field, value) is None else None


def _list_fields_with_reference(offer: Offer) -> list[Field]:
    if "form" not in offer.context:
        return []
    return [field for field in parse_form(offer.context["form"]).every_field if field.default_ref]


def _read(body: bytes, content_type: str | None) -> Any:
    try:
        if (content_type or "").partition(";")[0].strip().endswith("json"):
            return msgspec.json.decode(body)
        return body.decode().strip()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
