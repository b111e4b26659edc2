"""Pre-filled form values from `default_ref` (spec 10.3.1), fetched through the guard, without credentials."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from placet.cases.case import Case, Offer
from placet.errors import PlacetError
from placet.ports.fetcher import Fetcher
from placet.protocol.fields import Field
from placet.protocol.form_answers import find_field_problem
from placet.protocol.forms import parse_form

WAIT_FOR = timedelta(seconds=3)
KEEP_FOR = timedelta(minutes=5)
LARGEST = 64 * 1024
REMEMBERED = 1000

log = logging.getLogger("placet.prefill")


class Prefill:
    """Fetches what a form's fields start from; a value that cannot be had or does not fit is left out."""

    def __init__(self, fetcher: Fetcher, clock: Callable[[], datetime]) -> None:
        self._fetcher = fetcher
        self._now = clock
        self._known: dict[str, tuple[datetime, dict[str, Any]]] = {}

    async def values(self, case: Case, offer: Offer) -> dict[str, Any]:
        """Start values by field key."""
        fields = _referring(offer)
        if not fields or not case.live:
            return {}
        known = self._known.get(case.id)
        if known is not None and self._now() < known[0]:
            return known[1]
        found = await asyncio.gather(*(self._fetch(field) for field in fields))
        values = {field.key: value for field, value in zip(fields, found, strict=True) if value is not None}
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[case.id] = (self._now() + KEEP_FOR, values)
        return values

    async def _fetch(self, field: Field) -> Any:
        try:
            reply = await self._fetcher.fetch(
                field.default_ref or "", timeout_for=WAIT_FOR, max_bytes=LARGEST
            )
        except PlacetError as error:
            log.warning("default_ref of %s was not fetched: %s", field.key, error.message)
            return None
        if reply.status != 200 or reply.truncated:
            return None
        value = _read(reply.body, reply.content_type)
        return value if find_field_problem(field, value) is None else None


def _referring(offer: Offer) -> list[Field]:
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
