"""Conversion between values and rows: times as microseconds since 1970, nested values as JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, overload

import msgspec

from placet.cases.case import Case, Offer
from placet.cases.events import Event
from placet.ports.case_store import FormDraft, IdempotencyRecord
from placet.ports.endpoint_store import Endpoint
from placet.ports.key_store import ApiKey, StoredSession
from placet.ports.outbox_store import Delivery

Value = None | int | float | bytes | str
Row = Sequence[Any]
Params = tuple[Value, ...]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

encode = msgspec.json.Encoder().encode
case_from = msgspec.json.Decoder(Case).decode
_offer_decoder = msgspec.json.Decoder(Offer)
_entries_from = msgspec.json.Decoder(dict[str, Any]).decode
_scopes_from = msgspec.json.Decoder(tuple[str, ...]).decode


_UNREADABLE_OFFER = Offer(type="", prompt="", message="")  # matches no digest: the check refuses its case


def case_and_offer_from(row: Row) -> tuple[Case, Offer] | None:
    """Convert an encoded case and its encoded offer; return None if the content was erased."""
    state, offer = row
    case = case_from(state)
    if case.erased_at is not None:
        return None
    return case, _offer_from(offer)


def _offer_from(offer: bytes | None) -> Offer:
    """Return the offer. One that is missing or cannot be read was altered outside of this program."""
    try:
        return _UNREADABLE_OFFER if offer is None else _offer_decoder.decode(offer)
    except (msgspec.DecodeError, RecursionError):
        return _UNREADABLE_OFFER


@overload
def to_micros(at: datetime) -> int: ...
@overload
def to_micros(at: datetime | None) -> int | None: ...
def to_micros(at: datetime | None) -> int | None:
    """Return a time as whole microseconds since 1970, or None for None."""
    return None if at is None else (at - _EPOCH) // _MICROSECOND


@overload
def datetime_from(value: int) -> datetime: ...
@overload
def datetime_from(value: int | None) -> datetime | None: ...
def datetime_from(value: int | None) -> datetime | None:
    """Return the time that `to_micros` encoded, or None for None."""
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def row_from_event(event: Event) -> Params:
    """Return the parameters of `insert_event`."""
    return (
        event.case_id,
        event.seq,
        event.type,
        to_micros(event.at),
        event.actor,
        event.data,
        event.salt,
        event.data_digest,
        event.previous,
        event.digest,
        event.state_digest,
    )


def event_from(row: Row) -> Event:
    """Convert a row of `select_events`, which has the fields of Event in their order."""
    values = dict(zip(Event.__struct_fields__, row, strict=True))
    return Event(**{**values, "at": datetime_from(values["at"])})


def row_from_idempotency(record: IdempotencyRecord) -> Params:
    """Return the parameters of `insert_replay`, except the current time."""
    return (
        record.owner,
        record.key_digest,
        record.request_digest,
        record.sealed_response,
        to_micros(record.expires_at),
    )


def idempotency_from(owner: str, key_digest: str, row: Row) -> IdempotencyRecord:
    """Convert a row of `select_replay`."""
    request_digest, sealed_response, expires_at = row
    return IdempotencyRecord(
        owner=owner,
        key_digest=key_digest,
        request_digest=request_digest,
        sealed_response=sealed_response,
        expires_at=datetime_from(expires_at),
    )


def row_from_draft(draft: FormDraft) -> Params:
    """Return the parameters of `upsert_draft`."""
    return draft.case_id, encode(draft.values), draft.step, to_micros(draft.saved_at)


def draft_from(case_id: str, row: Row) -> FormDraft:
    """Convert a row of `select_draft`."""
    entries, step, saved_at = row
    return FormDraft(
        case_id=case_id, values=_entries_from(entries), step=step, saved_at=datetime_from(saved_at)
    )


def row_from_delivery(delivery: Delivery) -> Params:
    """Return the parameters of `insert_delivery`."""
    return (
        delivery.id,
        delivery.case_id,
        delivery.event,
        delivery.owner,
        delivery.courier,
        delivery.target,
        delivery.body,
        to_micros(delivery.created_at),
        *_attempt_values(delivery),
    )


def row_from_outcome(delivery: Delivery) -> Params:
    """Return the parameters of `settle_delivery`: what an attempt changed."""
    return (delivery.id, *_attempt_values(delivery))


def _attempt_values(delivery: Delivery) -> Params:
    return (
        to_micros(delivery.next_at),
        delivery.state,
        delivery.attempts,
        delivery.last_status,
        delivery.last_error,
        to_micros(delivery.settled_at),
    )


def delivery_from(row: Row) -> Delivery:
    """Convert a row of `select_deliveries`."""
    id, case_id, event, owner, courier, target, body, created_at, next_at, *outcome = row
    state, attempts, last_status, last_error, settled_at = outcome
    return Delivery(
        id=id,
        case_id=case_id,
        event=event,
        owner=owner,
        courier=courier,
        target=target,
        body=body,
        created_at=datetime_from(created_at),
        next_at=datetime_from(next_at),
        state=state,
        attempts=attempts,
        last_status=last_status,
        last_error=last_error,
        settled_at=datetime_from(settled_at),
    )


def row_from_endpoint(endpoint: Endpoint) -> Params:
    """Return the parameters of `upsert_endpoint`."""
    return (
        endpoint.owner,
        endpoint.url,
        endpoint.secret,
        endpoint.previous_secret,
        to_micros(endpoint.previous_until),
        to_micros(endpoint.disabled_at),
        to_micros(endpoint.created_at),
    )


def endpoint_from(row: Row) -> Endpoint:
    """Convert a row of `select_endpoint`."""
    owner, url, secret, previous_secret, previous_until, disabled_at, created_at = row
    return Endpoint(
        owner=owner,
        url=url,
        secret=secret,
        previous_secret=previous_secret,
        previous_until=datetime_from(previous_until),
        disabled_at=datetime_from(disabled_at),
        created_at=datetime_from(created_at),
    )


def row_from_api_key(key: ApiKey) -> Params:
    """Return the parameters of `upsert_api_key`."""
    return (
        key.id,
        key.name,
        key.digest,
        encode(key.scopes).decode(),
        to_micros(key.created_at),
        to_micros(key.expires_at),
        to_micros(key.revoked_at),
    )


def row_from_session(session: StoredSession) -> Params:
    """Return the parameters of `insert_inbox_session`."""
    return (session.digest, session.key_digest, to_micros(session.ends_at))


def session_from(row: Row) -> StoredSession:
    """Convert a row of `select_inbox_session`."""
    digest, key_digest, ends_at = row
    return StoredSession(digest=digest, key_digest=key_digest, ends_at=datetime_from(ends_at))


def api_key_from(row: Row) -> ApiKey:
    """Convert a row of `select_api_key`."""
    id, name, digest, scopes, created_at, expires_at, revoked_at = row
    return ApiKey(
        id=id,
        name=name,
        digest=digest,
        scopes=_scopes_from(scopes),
        created_at=datetime_from(created_at),
        expires_at=datetime_from(expires_at),
        revoked_at=datetime_from(revoked_at),
    )
