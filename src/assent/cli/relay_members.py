"""`assent relay caller` and `assent relay group`: who may call agents, and who may see and decide what."""

from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from assent.cli.options import json_option, print_table
from assent.cli.relay_registry import Registry, in_registry, registry_options
from assent.cli.results import print_result
from assent.errors import CaseNotFound
from assent.relay.api.callers import CallerView
from assent.relay.api.groups import MemberGroupView
from assent.relay.tenancy import PERMISSIONS

KINDS = click.Choice(["agent", "user"])
MAY = click.Choice(sorted(PERMISSIONS))


@click.group()
def caller() -> None:
    """Callers: who may call which agents."""


@caller.command()
@click.argument("name")
@registry_options
@click.option("--agent", "agents", metavar="ID", multiple=True, required=True, help="An agent it may call.")
@click.option("--kind", type=KINDS, help="Whether it is an agent or a person; default: agent.")
def add(
    name: str, db: str | None, config: Path | None, tenant: str, agents: tuple[str, ...], kind: str | None
) -> None:
    """Let the keys of this NAME call agents, besides those they may call already."""

    async def subscribe(registry: Registry) -> CallerView:
        try:
            known = await registry.ask(registry.callers.one, name=name)
        except CaseNotFound:
            draft = {"name": name, "agents": agents, "kind": kind or "agent"}
            return await registry.ask(registry.callers.create, draft)
        changed = {"agents": _with(known.agents, agents), "kind": kind or known.kind}
        return await registry.ask(registry.callers.update, changed, name=name)

    made = in_registry(subscribe, db=db, config=config, tenant=tenant, create=True)
    click.echo(f"{name} may call {', '.join(made.agents)}. Its key: assent key create {name}", err=True)


@caller.command("list")
@registry_options
@json_option
def list_callers(db: str | None, config: Path | None, tenant: str, as_json: bool) -> None:
    """List callers and what they may call, those of the settings file included."""
    found = in_registry(
        lambda registry: registry.every(registry.callers.listed), db=db, config=config, tenant=tenant
    )
    if as_json:
        print_result(msgspec.to_builtins(found))
        return
    rows = [(one.name, one.kind, ", ".join(one.agents) or "-", one.origin) for one in found]
    print_table(("name", "kind", "agents", "from"), rows, empty="There are no callers yet.")


@caller.command("remove")
@click.argument("name")
@registry_options
@click.option("--agent", "agents", metavar="ID", multiple=True, help="Only from calling this agent.")
def remove_caller(
    name: str, db: str | None, config: Path | None, tenant: str, agents: tuple[str, ...]
) -> None:
    """Keep a caller from calling, anyone or only some."""

    async def unsubscribe(registry: Registry) -> None:
        for sink in agents:
            await registry.ask(registry.callers.unsubscribe, source=name, sink=sink)
        if not agents:
            await registry.ask(registry.callers.remove, name=name)

    in_registry(unsubscribe, db=db, config=config, tenant=tenant)
    click.echo(f"{name} may no longer call {', '.join(agents) or 'anyone'}.", err=True)


@click.group()
def group() -> None:
    """Groups: who may see and decide what."""


@group.command("add")
@click.argument("name")
@registry_options
@click.option("--member", "members", metavar="NAME", multiple=True, help="The name of an API key.")
@click.option("--permission", "permissions", type=MAY, multiple=True, help="What the members may do.")
def add_group(
    name: str,
    db: str | None,
    config: Path | None,
    tenant: str,
    members: tuple[str, ...],
    permissions: tuple[str, ...],
) -> None:
    """Make a group, or add members and permissions to one."""

    async def enlarge(registry: Registry) -> MemberGroupView:
        try:
            known = await registry.ask(registry.groups.one, name=name)
        except CaseNotFound:
            draft = {"name": name, "members": members, "permissions": permissions}
            return await registry.ask(registry.groups.create, draft)
        changed = {
            "members": _with(known.members, members),
            "permissions": _with(known.permissions, permissions),
        }
        return await registry.ask(registry.groups.update, changed, name=name)

    made = in_registry(enlarge, db=db, config=config, tenant=tenant, create=True)
    who, what = ", ".join(made.members) or "nobody", ", ".join(made.permissions) or "nothing"
    click.echo(f"{name}: {who}; may {what}.", err=True)


@group.command("list")
@registry_options
@json_option
def list_groups(db: str | None, config: Path | None, tenant: str, as_json: bool) -> None:
    """List groups, their members and what they may do, those of the settings file included."""
    found = in_registry(
        lambda registry: registry.every(registry.groups.listed), db=db, config=config, tenant=tenant
    )
    if as_json:
        print_result(msgspec.to_builtins(found))
        return
    rows = [
        (one.name, ", ".join(one.members) or "-", " ".join(one.permissions) or "-", one.origin)
        for one in found
    ]
    print_table(("name", "members", "permissions", "from"), rows, empty="There are no groups yet.")


@group.command("remove")
@click.argument("name")
@registry_options
@click.option("--member", "members", metavar="NAME", multiple=True, help="Only this member.")
@click.option("--permission", "permissions", type=MAY, multiple=True, help="Only this permission.")
def remove_group(
    name: str,
    db: str | None,
    config: Path | None,
    tenant: str,
    members: tuple[str, ...],
    permissions: tuple[str, ...],
) -> None:
    """Remove a group, or only some members or permissions of it."""

    async def lessen(registry: Registry) -> None:
        if not (members or permissions):
            await registry.ask(registry.groups.remove, name=name)
            return
        known = await registry.ask(registry.groups.one, name=name)
        changed = {
            "members": _without(known.members, members),
            "permissions": _without(known.permissions, permissions),
        }
        await registry.ask(registry.groups.update, changed, name=name)

    in_registry(lessen, db=db, config=config, tenant=tenant)
    click.echo(f"Removed {', '.join((*members, *permissions)) or name}.", err=True)


def _with(known: Iterable[str], more: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*known, *more)))


def _without(known: Iterable[str], fewer: tuple[str, ...]) -> list[str]:
    return [one for one in known if one not in fewer]
