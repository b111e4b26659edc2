"""`placet relay caller` and `placet relay group`: who may call agents, and who may see and decide what."""

from collections.abc import Callable, Iterable
from typing import Any

import click
from msgspec import Struct

from placet.cli.command_group import CommandGroup
from placet.cli.options import json_option
from placet.cli.output import print_table
from placet.cli.relay_operations import add_location_options, run_registry
from placet.cli.results import print_result
from placet.errors import CaseNotFound, PlacetError, RelayConflict
from placet.http.operations import Operations, call_all_pages
from placet.relay.tenants import PERMISSIONS

NOT_FOUND, CONFLICT = 404, 409
ATTEMPTS = 10
KINDS = click.Choice(["agent", "user"])
MAY = click.Choice(sorted(PERMISSIONS))

registry_options = add_location_options("registry", "or the database on the server's machine")


class RecordOperations(Struct, frozen=True, kw_only=True):
    """The names of the operations on one type of record."""

    get: str
    change: str
    create: str


CALLERS = RecordOperations(get="getCaller", change="changeCaller", create="registerCaller")
GROUPS = RecordOperations(get="getGroup", change="changeGroup", create="createGroup")


@click.group(cls=CommandGroup)
def caller() -> None:
    """Manage who may call which agents."""


@caller.command()
@click.argument("name")
@registry_options
@click.option(
    "--agent",
    "agents",
    metavar="ID",
    multiple=True,
    required=True,
    help="An agent that it may call. Repeatable.",
)
@click.option("--kind", type=KINDS, help="What the caller is. Default: agent.")
def add(name: str, agents: tuple[str, ...], kind: str | None, **where: Any) -> None:
    """Allow API keys with this NAME to call agents, in addition to those they may call already."""

    def change(known: dict[str, Any]) -> dict[str, Any]:
        return {"agents": _with(known["agents"], agents), "kind": kind or known["kind"]}

    draft = {"name": name, "agents": agents, "kind": kind or "agent"}
    made = run_registry(where, lambda relay: amend_record(relay, CALLERS, name, change, draft), create=True)
    click.echo(f"{name} may call {', '.join(made['agents'])}. Its key: placet key create {name}", err=True)


@caller.command("list")
@registry_options
@json_option
def list_callers(as_json: bool, **where: Any) -> None:
    """List callers and the agents they may call, including those in the settings."""
    found = run_registry(where, lambda relay: call_all_pages(relay, "listCallers"))
    if as_json:
        print_result(found)
        return
    rows = [(one["name"], one["kind"], ", ".join(one["agents"]) or "-", one["origin"]) for one in found]
    print_table(("name", "kind", "agents", "from"), rows, empty="There are no callers yet.")


@caller.command("remove")
@click.argument("name")
@registry_options
@click.option(
    "--agent", "agents", metavar="ID", multiple=True, help="Only remove access to this agent. Repeatable."
)
def remove_caller(name: str, agents: tuple[str, ...], **where: Any) -> None:
    """Remove a caller, or only its access to some agents."""

    async def unsubscribe(relay: Operations) -> None:
        for sink in agents:
            await relay.call("unsubscribe", source=name, sink=sink)
        if not agents:
            await relay.call("removeCaller", name=name)

    run_registry(where, unsubscribe)
    click.echo(f"{name} may no longer call {', '.join(agents) or 'any agent'}.", err=True)


@click.group(cls=CommandGroup)
def group() -> None:
    """Manage groups and their permissions."""


@group.command("add")
@click.argument("name")
@registry_options
@click.option("--member", "members", metavar="NAME", multiple=True, help="Name of an API key. Repeatable.")
@click.option(
    "--permission", "permissions", type=MAY, multiple=True, help="A permission of its members. Repeatable."
)
def add_group(name: str, members: tuple[str, ...], permissions: tuple[str, ...], **where: Any) -> None:
    """Create a group, or add members and permissions to it."""

    def change(known: dict[str, Any]) -> dict[str, Any]:
        return {
            "members": _with(known["members"], members),
            "permissions": _with(known["permissions"], permissions),
        }

    draft = {"name": name, "members": members, "permissions": permissions}
    made = run_registry(where, lambda relay: amend_record(relay, GROUPS, name, change, draft), create=True)
    members_text, permissions_text = (", ".join(made[key]) or "none" for key in ("members", "permissions"))
    click.echo(f"{name}: members {members_text}; permissions {permissions_text}.", err=True)


@group.command("list")
@registry_options
@json_option
def list_groups(as_json: bool, **where: Any) -> None:
    """List groups with their members and permissions, including those in the settings."""
    found = run_registry(where, lambda relay: call_all_pages(relay, "listGroups"))
    if as_json:
        print_result(found)
        return
    rows = [
        (one["name"], ", ".join(one["members"]) or "-", " ".join(one["permissions"]) or "-", one["origin"])
        for one in found
    ]
    print_table(("name", "members", "permissions", "from"), rows, empty="There are no groups yet.")


@group.command("remove")
@click.argument("name")
@registry_options
@click.option(
    "--member", "members", metavar="NAME", multiple=True, help="Only remove this member. Repeatable."
)
@click.option(
    "--permission", "permissions", type=MAY, multiple=True, help="Only remove this permission. Repeatable."
)
def remove_group(name: str, members: tuple[str, ...], permissions: tuple[str, ...], **where: Any) -> None:
    """Remove a group, or only some members or permissions of it."""

    def change(known: dict[str, Any]) -> dict[str, Any]:
        return {
            "members": _list_without(known["members"], members),
            "permissions": _list_without(known["permissions"], permissions),
        }

    async def reduce(relay: Operations) -> None:
        if members or permissions:
            await amend_record(relay, GROUPS, name, change)
        else:
            await relay.call("removeGroup", name=name)

    run_registry(where, reduce)
    click.echo(f"Removed {', '.join((*members, *permissions)) or name}.", err=True)


async def amend_record(
    relay: Operations,
    operations: RecordOperations,
    name: str,
    change: Callable[[dict[str, Any]], dict[str, Any]],
    draft: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Replace a record with what `change` returns for it. Without a record, create `draft` if it is given.

    If somebody else changes the record at the same time, `change` is applied to the new record.
    """
    known = await _find_record(relay, operations, name)
    for _ in range(ATTEMPTS):
        try:
            saved: dict[str, Any]
            if known is not None:
                body, rev = change(known), known["rev"]
                saved = await relay.call(operations.change, body, if_match=rev, name=name)
            elif draft is not None:
                saved = await relay.call(operations.create, draft)
            else:
                raise CaseNotFound(f"There is no {name}.")
            return saved
        except PlacetError as refusal:
            present = await _find_record(relay, operations, name) if refusal.status == CONFLICT else known
            if _read_revision(present) == _read_revision(known):
                raise
            known = present
    raise RelayConflict(f"{name} was changed at the same time. Try again.")


async def _find_record(relay: Operations, operations: RecordOperations, name: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = await relay.call(operations.get, name=name)
    except PlacetError as refusal:
        if refusal.status != NOT_FOUND:
            raise
        return None
    return found


def _read_revision(known: dict[str, Any] | None) -> int | None:
    return None if known is None else known["rev"]


def _with(known: Iterable[str], more: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*known, *more)))


def _list_without(known: Iterable[str], fewer: tuple[str, ...]) -> list[str]:
    return [one for one in known if one not in fewer]
