"""How structs lie in rows: moments as microseconds, everything nested as JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, overload

import msgspec

from placet.cases.case import Case, Offer
from placet.cases.events import Event
from placet.ports.case_store import FormDraft, IdempotencyRecord
from placet.ports.endpoint_store import Endpoint
from placet.ports.key_store import ApiKey
from placet.ports.outbox_store import Delivery

Value = None | int | float | bytes | str
Row = Sequence[Any]
Params = tuple[Value, ...]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

encode = msgspec.json.Encoder().encode
case_from = msgspec.json.Decoder(Case).decode
offer_from = msgspec.json.Decoder(Offer).decode
_entries_from = msgspec.json.Decoder(dict[str, Any]).decode
_scopes_from = msgspec.json.Decoder(tuple[str, ...]).decode


@overload
def micros(moment: datetime) -> int: ...
@overload
def micros(moment: datetime | None) -> int | None: ...
def micros(moment: datetime | None) -> int | None:
    """A moment as whole microseconds since 1970."""
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND


@overload
def moment(value: int) -> datetime: ...
@overload
def moment(value: int | None) -> datetime | None: ...
def moment(value: int | None) -> datetime | None:
    """The moment that `micros` wrote."""
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def event_row(event: Event) -> Params:
    """An event as `insert_event` takes it."""
    return (
        event.case_id,
        event.seq,
        event.type,
        micros(event.at),
        event.actor,
        event.data,
        event.salt,
        event.data_digest,
        event.previous,
        event.digest,
    )


def event_from(row: Row) -> Event:
    """An event as `select_events` gives it."""
    case_id, seq, type, at, actor, data, salt, data_digest, previous, digest = row
    return Event(
        case_id=case_id,
        seq=seq,
        type=type,
        at=moment(at),
        actor=actor,
        data=data,
        salt=salt,
        data_digest=data_digest,
        previous=previous,
        digest=digest,
    )


def replay_row(replay: IdempotencyRecord) -> Params:
    """A replay as `insert_replay` takes it, but for the present moment."""
    return (
        replay.owner,
        replay.key_digest,
        replay.request_digest,
        replay.sealed_response,
        micros(replay.expires_at),
    )


def replay_from(owner: str, key_digest: str, row: Row) -> IdempotencyRecord:
    """A replay as `select_replay` gives it."""
    request_digest, sealed_response, expires_at = row
    return IdempotencyRecord(
        owner=owner,
        key_digest=key_digest,
        request_digest=request_digest,
        sealed_response=sealed_response,
        expires_at=moment(expires_at),
    )


def draft_row(draft: FormDraft) -> Params:
    """A draft as `upsert_draft` takes it."""
    return draft.case_id, encode(draft.values), draft.step, micros(draft.saved_at)


def draft_from(case_id: str, row: Row) -> FormDraft:
    """A draft as `select_draft` gives it."""
    entries, step, saved_at = row
    return FormDraft(case_id=case_id, values=_entries_from(entries), step=step, saved_at=moment(saved_at))


def delivery_row(delivery: Delivery) -> Params:
    """A delivery as `insert_delivery` takes it."""
    return (
        delivery.id,
        delivery.case_id,
        delivery.event,
        delivery.owner,
        delivery.courier,
        delivery.target,
        delivery.body,
        micros(delivery.created_at),
        micros(delivery.next_at),
        delivery.state,
        delivery.attempts,
        delivery.last_status,
        delivery.last_error,
        micros(delivery.settled_at),
    )


def outcome_row(delivery: Delivery) -> Params:
    """What an attempt changed, as `settle_delivery` takes it."""
    return (
        delivery.id,
        micros(delivery.next_at),
        delivery.state,
        delivery.attempts,
        delivery.last_status,
        delivery.last_error,
        micros(delivery.settled_at),
    )


def delivery_from(row: Row) -> Delivery:
    """A delivery as `select_deliveries` gives it."""
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
        created_at=moment(created_at),
        next_at=moment(next_at),
        state=state,
        attempts=attempts,
        last_status=last_status,
        last_error=last_error,
        settled_at=moment(settled_at),
    )


def endpoint_row(endpoint: Endpoint) -> Params:
    """An endpoint as `upsert_endpoint` takes it."""
    return (
        endpoint.owner,
        endpoint.url,
        endpoint.secret,
        endpoint.previous_secret,
        micros(endpoint.previous_until),
        micros(endpoint.disabled_at),
        micros(endpoint.created_at),
    )


def endpoint_from(row: Row) -> Endpoint:
    """An endpoint as `select_endpoint` gives it."""
    owner, url, secret, previous_secret, previous_until, disabled_at, created_at = row
    return Endpoint(
        owner=owner,
        url=url,
        secret=secret,
        previous_secret=previous_secret,
        previous_until=moment(previous_until),
        disabled_at=moment(disabled_at),
        created_at=moment(created_at),
    )


def api_key_row(key: ApiKey) -> Params:
    """An API key as `upsert_api_key` takes it."""
    return (
        key.id,
        key.name,
        key.digest,
        encode(key.scopes).decode(),
        micros(key.created_at),
        micros(key.expires_at),
        micros(key.revoked_at),
    )


def api_key_from(row: Row) -> ApiKey:
    """An API key as `select_api_key` gives it."""
    id, name, digest, scopes, created_at, expires_at, revoked_at = row
    return ApiKey(
        id=id,
        name=name,
        digest=digest,
        scopes=_scopes_from(scopes),
        created_at=moment(created_at),
        expires_at=moment(expires_at),
        revoked_at=moment(revoked_at),
    )
