"""`placet signing` and `placet verify result`: manage signing keys, and verify a signed result."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import httpx

from placet.agent.trust import Origin, parse_origin
from placet.cli.client_options import get_default_server
from placet.cli.command_group import CommandGroup
from placet.cli.database import load_settings, run_with_store
from placet.cli.options import config_option, db_option, json_option
from placet.cli.output import print_json, print_table
from placet.desk import clock
from placet.errors import AddressRefused, PlacetError, SignatureInvalid
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.service_paths import JWKS
from placet.signing.keys import load_key
from placet.signing.stored_signer import revoke_key, rotate_keys
from placet.signing.verify import verify_result
from placet.text.truncation import to_single_line

NAME_A_KEY = (
    "Pass the API key that created the case with --key, or set PLACET_KEY together with PLACET_SERVER."
)


NAME_WHOM_TO_TRUST = (
    "Say whose keys count: pass the URL of the server that made the decision with --trust, or its keys with"
    " --jwks. PLACET_SERVER counts as well. A result names its keys itself, and so does a forgery."
)


@click.group(cls=CommandGroup)
def signing() -> None:
    """List, rotate and revoke the keys that sign results."""


@signing.command()
@db_option
@config_option
@click.option(
    "--algorithm",
    type=click.Choice(["ES256", "RS256", "EdDSA"]),
    help="Algorithm of the new key. Default: unchanged.",
)
def rotate(db: str | None, config: Path | None, algorithm: str | None) -> None:
    """Sign with a new key from now on. Earlier results can still be verified."""
    path = load_settings(config, db=db).settings.db
    ring = run_with_store(path, lambda store: rotate_keys(store, now=clock.now(), algorithm=algorithm))
    click.echo(f"Now signing with {ring.current.kid} ({ring.current.algorithm}).", err=True)


@signing.command()
@click.argument("kid", metavar="KID")
@db_option
@config_option
def revoke(kid: str, db: str | None, config: Path | None) -> None:
    """Refuse every signature of a key, whatever its date, and sign with a new key if it was in use.

    For a private key that was stolen. The key is published no more, so results that it signed cannot be
    verified again. Write `--` before a KID that begins with a dash.
    """
    path = load_settings(config, db=db).settings.db
    ring = run_with_store(path, lambda store: revoke_key(store, kid, now=clock.now()))
    click.echo(f"Revoked {kid}. Signing with {ring.current.kid} ({ring.current.algorithm}).", err=True)


@signing.command("list")
@db_option
@config_option
def list_keys(db: str | None, config: Path | None) -> None:
    """List the signing keys."""
    texts = run_with_store(load_settings(config, db=db).settings.db, lambda store: store.list_signing_keys())
    keys = [load_key(text) for text in texts]
    rows = [(one.kid, one.algorithm, one.created_at, one.retired_at, one.revoked_at) for one in keys]
    print_table(
        ("kid", "algorithm", "created", "retired", "revoked"), rows, empty="There are no signing keys yet."
    )


@click.command("result")
@click.argument("source", metavar="FILE|URL")
@click.option("--jwks", metavar="FILE|URL", help="The keys of the server that you trust.")
@click.option(
    "--trust",
    "trusted",
    multiple=True,
    metavar="ORIGIN",
    help="Trust keys that the result names if they are at this origin. Repeatable. Default: PLACET_SERVER.",
)
@click.option(
    "--key", metavar="API_KEY", help="API key for a poll URL. Default: PLACET_KEY, for PLACET_SERVER only."
)
@json_option
def verify_signature(
    source: str, jwks: str | None, trusted: tuple[str, ...], key: str | None, as_json: bool
) -> None:
    """Verify the signature of a completed case's poll response.

    A result names the address of its keys itself, and so does a forgery. Say whose keys count: pass --jwks or
    --trust, or set PLACET_SERVER. Exit codes: 0 valid; 1 not valid, or not verified because of an error; 2
    usage error.
    """
    origins = _list_trusted_origins(trusted) if jwks is None else frozenset()
    poll = _read_document(source, key or _find_own_key(source))
    named = _read_signer(poll)
    if jwks is None:
        _require_trusted(named, origins)
    verified = verify_result(poll, _read_document(jwks or named, None))
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


def _list_trusted_origins(trusted: tuple[str, ...]) -> frozenset[Origin]:
    """Return the origins whose keys count: those of --trust, else that of PLACET_SERVER."""
    server = os.environ.get("PLACET_SERVER")
    urls = trusted or ((server,) if server else ())
    if not urls:
        raise click.UsageError(NAME_WHOM_TO_TRUST)
    if wrong := [url for url in urls if not is_secure_or_loopback(url)]:
        raise click.BadParameter(
            f"{wrong[0]!r} is not an https:// URL, or an http:// URL on loopback.",
            param_hint="--trust" if trusted else "PLACET_SERVER",
        )
    return frozenset(map(parse_origin, urls))


def _require_trusted(keys_url: str, origins: frozenset[Origin]) -> None:
    """Raise SignatureInvalid unless this is where a trusted origin publishes its keys.

    At other addresses of the origin there may be documents of others: the card of an agent behind its relay.
    """
    _require_secure(keys_url)
    if parse_origin(keys_url) not in origins:
        raise SignatureInvalid(
            f"The result names keys at {to_single_line(keys_url)}, which is not an origin that you trust."
            " Anybody can make such a result."
        )
    address = urlsplit(keys_url)
    if address.query or not address.path.endswith(JWKS):
        raise SignatureInvalid(
            f"The result names keys at {to_single_line(keys_url)}, and a server publishes its keys at {JWKS}."
            " If these are its keys, pass them with --jwks."
        )


def _find_own_key(source: str) -> str | None:
    """Return the key of the environment if the document is on the server of the environment."""
    try:
        is_own_server = parse_origin(source) == parse_origin(
            os.environ.get("PLACET_SERVER") or get_default_server()
        )
    except AddressRefused:  # a file, or not a valid URL
        return None
    return os.environ.get("PLACET_KEY") if is_own_server else None


def _read_document(source: str, key: str | None) -> Mapping[str, Any]:
    raw = _fetch(source, key) if "://" in source else _read(source)
    try:
        found = json.loads(raw, object_pairs_hook=_read_object)
    except RecursionError as error:
        raise SignatureInvalid(f"{source} is nested too deep.") from error
    except ValueError as error:
        raise SignatureInvalid(f"{source} is not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise SignatureInvalid(f"{source} is not a JSON object.")
    return found


def _read_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a name that occurs twice would let two readers see different results."""
    found = dict(members)
    if len(found) < len(members):
        raise SignatureInvalid("The document names a member of an object twice.")
    return found


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise PlacetError(f"{path} cannot be read: {error.strerror}.") from error


def _fetch(url: str, key: str | None) -> bytes:
    _require_secure(url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(url, headers=headers, timeout=10, follow_redirects=False)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise PlacetError(f"{url} could not be fetched: {error}.") from error
    if answer.status_code != 200:
        refusal = PlacetError(f"{url} answered {answer.status_code}{_read_reason(answer)}")
        if answer.status_code == 401:
            refusal.add_note(NAME_A_KEY)
        raise refusal
    return answer.content


def _require_secure(url: str) -> None:
    if not is_secure_or_loopback(url):
        raise PlacetError(f"{url} is not https; keys and results are not fetched over plain http.")


def _read_reason(answer: httpx.Response) -> str:
    """Return the error message of a Placet server."""
    try:
        return f": {answer.json()['message']}"
    except (ValueError, KeyError, TypeError):
        return "."


def _read_signer(poll: Mapping[str, Any]) -> str:
    result = poll.get("result")
    signature = result.get("signature") if isinstance(result, dict) else None
    signer = signature.get("signer") if isinstance(signature, dict) else None
    if not isinstance(signer, str):
        raise SignatureInvalid("This is not a completed case with a signed result.")
    return signer
