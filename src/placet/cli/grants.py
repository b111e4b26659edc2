"""`placet grant`: list, show and revoke grants in a database on this machine."""

from pathlib import Path
from typing import Any

import click
import msgspec

from placet.cli.command_group import CommandGroup
from placet.cli.database import load_settings, run_with_store
from placet.cli.options import config_option, db_option, json_option, limit_option
from placet.cli.output import print_table
from placet.cli.results import print_result
from placet.desk import clock
from placet.desk.grants import GrantService
from placet.errors import CaseNotFound
from placet.ports.store import Store
from placet.server.grant_api import GrantView, build_grant_view
from placet.text.characters import mark_hidden

OPERATOR = "operator"


@click.group(cls=CommandGroup)
def grant() -> None:
    """List, show and revoke grants: calls that people approved in advance."""


@grant.command("list")
@db_option
@config_option
@json_option
@click.option("--owner", metavar="NAME", help="Only grants of API keys with this name.")
@click.option("--live", is_flag=True, help="Only grants that can still be used.")
@limit_option
def list_grants(
    db: str | None, config: Path | None, as_json: bool, owner: str | None, live: bool, limit: int
) -> None:
    """List grants, newest first, including expired and revoked ones."""
    found = run_with_store(
        load_settings(config, db=db).settings.db,
        lambda store: _list_grants(store, owner, live=live, limit=limit),
    )
    if as_json:
        print_result(msgspec.to_builtins(found))
        return
    rows = [
        (
            one.id,
            one.state,
            _format_safely(one.tool),
            f"{one.uses_left}/{one.uses}",
            one.expires_at,
            _format_safely(one.granted_by),
        )
        for one in found
    ]
    header = ("id", "state", "tool", "left", "until", "granted by")
    print_table(header, rows, empty="There are no grants.")


@grant.command()
@click.argument("grant_id", metavar="ID")
@db_option
@config_option
@json_option
def show(grant_id: str, db: str | None, config: Path | None, as_json: bool) -> None:
    """Show what a grant covers, who gave it, and how many uses are left."""
    found = run_with_store(
        load_settings(config, db=db).settings.db, lambda store: _load_grant(store, grant_id)
    )
    if as_json:
        print_result(msgspec.to_builtins(found))
        return
    for name, value in _list_lines(found):
        click.echo(f"{name:<11} {_format_safely(value)}")


@grant.command()
@click.argument("grant_id", metavar="ID")
@db_option
@config_option
@json_option
def revoke(grant_id: str, db: str | None, config: Path | None, as_json: bool) -> None:
    """Revoke a grant by its id. A running server asks a person again from then on."""
    settings = load_settings(config, db=db).settings

    async def end(store: Store) -> GrantView:
        grants = GrantService(store=store, clock=clock.now, keep_for=settings.limits.keep_for)
        ended = await grants.revoke_as(grant_id, OPERATOR)
        return build_grant_view(ended, now=clock.now())

    ended = run_with_store(settings.db, end)
    if as_json:
        print_result(msgspec.to_builtins(ended))
    click.echo(f"Revoked {ended.id}.", err=True)


async def _list_grants(store: Store, owner: str | None, *, live: bool, limit: int) -> list[GrantView]:
    found: list[GrantView] = []
    before: str | None = None
    now = clock.now()
    while len(found) < limit and (page := await store.list_grants(owner, before=before, limit=200)):
        views = (build_grant_view(one, now=now) for one in page)
        found += [view for view in views if not live or view.state == "live"]
        before = page[-1].id
    return found[:limit]


async def _load_grant(store: Store, grant_id: str) -> GrantView:
    found = await store.get_grant(grant_id)
    if found is None:
        raise CaseNotFound(f"There is no grant {grant_id[:50]!r}.")
    return build_grant_view(found, now=clock.now())


def _list_lines(grant: GrantView) -> list[tuple[str, Any]]:
    lines = [
        ("grant", f"{grant.id}, {grant.state}"),
        ("tool", grant.tool),
        ("agent", grant.agent or "-"),
        ("owner", grant.owner or "anonymous"),
        ("uses", f"{grant.uses_left} of {grant.uses} left"),
        ("granted", f"{grant.granted_at.isoformat()} by {grant.granted_by or 'someone erased'}"),
        ("until", grant.expires_at.isoformat()),
        ("case", f"{grant.case_id}, call {grant.call_id}"),
    ]
    if grant.revoked_at is not None:
        lines.append(("revoked", f"{grant.revoked_at.isoformat()} by {grant.revoked_by}"))
    patterns = {} if grant.patterns is None else grant.patterns
    return [*lines, *(("covers", f"{name} {_format_pattern(one)}") for name, one in patterns.items())]


def _format_pattern(pattern: dict[str, Any]) -> str:
    return " ".join(f"{name} {msgspec.json.encode(value).decode()}" for name, value in pattern.items())


def _format_safely(text: object) -> str:
    """Return text of agents and reviewers, escaped for a terminal."""
    return mark_hidden(str(text))
