"""`placet verify`: verify a signed result, or the whole log of a database."""

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from placet.cases.log_checkpoint import LogCheckpoint, SignedCheckpoint
from placet.cli.command_group import CommandGroup
from placet.cli.database import load_settings, run_with_store
from placet.cli.options import config_option, db_option, json_option
from placet.cli.output import print_json
from placet.cli.signing import verify_signature
from placet.desk import clock
from placet.desk.log_checkpoints import get_log_id, list_stored_checkpoints, make_checkpoint, read_checkpoint
from placet.desk.log_verification import LOG, LogProblem, LogTotals, verify_log
from placet.errors import PlacetError, SignatureInvalid
from placet.ports.store import Store
from placet.signing.checkpoint_signature import sign_checkpoint, verify_checkpoint
from placet.signing.jws_signer import JwsSigner
from placet.signing.keys import KeyRing, SigningKey, load_key
from placet.text.characters import mark_hidden


class VerifiedLog(Struct, frozen=True, kw_only=True):
    """What `placet verify log` found."""

    totals: LogTotals
    problems: list[LogProblem]
    saved: SignedCheckpoint | None = None


class ResultByDefault(CommandGroup):
    """A group in which `placet verify FILE` is short for `placet verify result FILE`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the name of the default command."""
        is_named = bool(args) and args[0] in (*self.commands, *ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["result", *args])


@click.group(cls=ResultByDefault)
def verify() -> None:
    """Verify a signed result, or the whole log of a database.

    `placet verify FILE` is short for `placet verify result FILE`.
    """


verify.add_command(verify_signature, "result")


@verify.command()
@click.option(
    "--checkpoint",
    "files",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A checkpoint that --save wrote earlier: the log must still begin with what it covers. Repeatable.",
)
@click.option(
    "--save",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a signed checkpoint of the log to a new file if no problem was found. Keep it elsewhere.",
)
@db_option
@config_option
@json_option
def log(
    files: tuple[Path, ...], target: Path | None, db: str | None, config: Path | None, as_json: bool
) -> None:
    """Verify every case, the order of all events, the relay's audit events and the checkpoints.

    A running server may use the database. A person who can write to the database can also sign checkpoints,
    so only one that you keep elsewhere reveals every deleted case. Exit codes: 0 no problem; 1 problems, or
    not verified because of an error; 2 usage error.
    """
    if target is not None and target.exists():
        raise PlacetError(f"{target} already exists. Name a new file.")
    kept = [_read_file(file) for file in files]
    found = run_with_store(
        load_settings(config, db=db).settings.db, lambda store: _verify(store, kept, save=target is not None)
    )
    if found.saved is not None and target is not None:
        _write_file(target, found.saved)
    _print(found, as_json=as_json)
    if found.problems:
        raise PlacetError(f"The log has problems: {len(found.problems)}.")


async def _verify(store: Store, kept: Sequence[SignedCheckpoint], *, save: bool) -> VerifiedLog:
    keys = [load_key(text) for text in await store.list_signing_keys()]
    stored, complaints = await list_stored_checkpoints(store)
    log_id, trusted = await get_log_id(store), []
    for signed in (*stored, *kept):
        complaint = _find_complaint(signed, log_id, keys)
        if complaint is None:
            trusted.append(signed.checkpoint)
        else:
            complaints.append(f"The checkpoint of {signed.checkpoint.made_at}: {complaint}")
    totals = LogTotals()
    problems = [LogProblem(case_id=LOG, problem=complaint) for complaint in complaints]
    problems += [one async for one in verify_log(store, trusted, totals)]
    saved = await _make_checkpoint(store, keys) if save and not problems else None
    return VerifiedLog(totals=totals, problems=problems, saved=saved)


def _find_complaint(signed: SignedCheckpoint, log_id: str, keys: Sequence[SigningKey]) -> str | None:
    """Return why this is not a checkpoint of this log, or None. One of a revoked key still counts."""
    if signed.checkpoint.log_id != log_id:
        return "it is of another database, or this database was replaced."
    try:
        verify_checkpoint(signed, {"keys": [key.to_public_jwk() for key in keys]})
    except SignatureInvalid as error:
        return error.message
    return None


async def _make_checkpoint(store: Store, keys: Sequence[SigningKey]) -> SignedCheckpoint:
    signer = JwsSigner(KeyRing.of(keys))

    async def sign(checkpoint: LogCheckpoint) -> SignedCheckpoint:
        return await sign_checkpoint(checkpoint, signer)

    return await make_checkpoint(store, sign=sign, now=clock.now())


def _read_file(file: Path) -> SignedCheckpoint:
    try:
        return read_checkpoint(file.read_bytes())
    except OSError as error:
        raise PlacetError(f"{file} cannot be read: {error.strerror}.") from error
    except PlacetError as error:
        raise PlacetError(f"{file}: {error.message}") from error


def _write_file(target: Path, signed: SignedCheckpoint) -> None:
    try:
        with target.open("xb") as file:
            file.write(msgspec.json.encode(signed) + b"\n")
    except OSError as error:
        raise PlacetError(f"{target} cannot be written: {error.strerror}.") from error


def _print(found: VerifiedLog, *, as_json: bool) -> None:
    totals = found.totals
    if as_json:
        print_json({"totals": totals, "problems": found.problems, "is_intact": not found.problems})
        return
    for one in found.problems:
        click.echo(mark_hidden(f"{one.case_id}: {one.problem}"))
    click.echo(
        f"Verified {totals.cases} cases, {totals.events} events, {totals.audit_events} audit events and"
        f" {totals.checkpoints} checkpoints. Problems: {len(found.problems)}.",
        err=True,
    )
