"""`placet signing` and `placet verify`: the keys behind signed results, and proof of a result."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import httpx
import msgspec

from placet.agent.trust import parse_origin
from placet.cli.command_group import CommandGroup
from placet.cli.options import (
    config_option,
    db_option,
    json_option,
    load_settings,
    print_json,
    print_table,
    with_store,
)
from placet.cli.request import DEFAULT_SERVER
from placet.desk import clock
from placet.errors import AddressRefused, PlacetError, SignatureInvalid
from placet.protocol.addresses import is_secure_or_loopback
from placet.signing.keys import load_key
from placet.signing.stored_signer import rotate_keys
from placet.signing.verify import verify_result
from placet.text.truncation import to_single_line

NAME_A_KEY = (
    "Name the key that opened the case with --key, or in PLACET_KEY beside its server in PLACET_SERVER."
)


@click.group(cls=CommandGroup)
def signing() -> None:
    """The keys that sign results."""


@signing.command()
@db_option
@config_option
@click.option("--algorithm", type=click.Choice(["ES256", "RS256", "EdDSA"]), help="Default: as it was.")
def rotate(db: str | None, config: Path | None, algorithm: str | None) -> None:
    """Begin signing with a new key; results signed before still verify."""
    path = load_settings(config, db=db).settings.db
    ring = with_store(path, lambda store: rotate_keys(store, now=clock.now(), algorithm=algorithm))
    click.echo(f"Now signing with {ring.current.kid} ({ring.current.algorithm}).", err=True)


@signing.command("list")
@db_option
@config_option
def list_keys(db: str | None, config: Path | None) -> None:
    """List the signing keys."""
    texts = with_store(load_settings(config, db=db).settings.db, lambda store: store.list_signing_keys())
    keys = [load_key(text) for text in texts]
    rows = [(one.kid, one.algorithm, one.created_at, one.retired_at) for one in keys]
    print_table(("kid", "algorithm", "created", "retired"), rows, empty="There are no signing keys yet.")


@click.command()
@click.argument("source", metavar="FILE|URL")
@click.option("--jwks", metavar="FILE|URL", help="The keys to trust; default: where the result says.")
@click.option(
    "--key", metavar="API_KEY", help="A key for a poll URL; default: PLACET_KEY, at PLACET_SERVER alone."
)
@json_option
def verify(source: str, jwks: str | None, key: str | None, as_json: bool) -> None:
    """Check the signature of a completed case's poll response."""
    poll = _document(source, key or _own_key(source))
    named = _signer_of(poll)
    verified = verify_result(poll, _document(jwks or named, None))
    if as_json:
        print_json(verified)
        return
    # The document is not trusted: none of its text may look like a line of ours.
    action, case_id, signed_at, kid, source = map(
        to_single_line, (verified.action, verified.case_id, verified.signed_at, verified.kid, jwks or named)
    )
    click.echo(f"Valid: {action} on {case_id}, signed {signed_at}")
    click.echo(f"  key    {kid} ({verified.algorithm}) from {source}")
    click.echo(f"  shown  {verified.shown}")


def _own_key(source: str) -> str | None:
    """Return the key of the environment if the document is on the server of the environment."""
    try:
        at_home = parse_origin(source) == parse_origin(os.environ.get("PLACET_SERVER") or DEFAULT_SERVER)
    except AddressRefused:  # a file, or not a valid URL
        return None
    return os.environ.get("PLACET_KEY") if at_home else None


def _document(source: str, key: str | None) -> Mapping[str, Any]:
    raw = _fetch(source, key) if "://" in source else _read(source)
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise SignatureInvalid(f"{source} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise SignatureInvalid(f"{source} is not a JSON object.")
    return found


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise PlacetError(f"{path} cannot be read: {error.strerror}.") from error


def _fetch(url: str, key: str | None) -> bytes:
    if not is_secure_or_loopback(url):
        raise PlacetError(f"{url} is not https; keys and results are not fetched over plain http.")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(url, headers=headers, timeout=10, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise PlacetError(f"{url} could not be fetched: {error}.") from error
    if answer.status_code != 200:
        refusal = PlacetError(f"{url} answered {answer.status_code}{_reason(answer)}")
        if answer.status_code == 401:
            refusal.add_note(NAME_A_KEY)
        raise refusal
    return answer.content


def _reason(answer: httpx.Response) -> str:
    """Return the error message of a Placet server."""
    try:
        return f": {answer.json()['message']}"
    except (ValueError, KeyError, TypeError):
        return "."


def _signer_of(poll: Mapping[str, Any]) -> str:
    result = poll.get("result")
    signature = result.get("signature") if isinstance(result, dict) else None
    signer = signature.get("signer") if isinstance(signature, dict) else None
    if not isinstance(signer, str):
        raise SignatureInvalid("This is not a completed case with a signed result.")
    return signer
