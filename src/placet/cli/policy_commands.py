"""`placet policy add, list, show, bind, …`: the policies of a server or of a database."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from placet.cli.options import json_option, print_table
from placet.cli.policy_files import FILE, draft_of, policies_in
from placet.cli.relay_operations import location_options, run_policies
from placet.cli.results import print_result
from placet.desk import clock
from placet.errors import PlacetError, ValidationFailed
from placet.http.operations import Operations, call_all_pages
from placet.protocol.duration import parse_duration
from placet.relay.policies.policy import Policy
from placet.text.characters import mark_hidden
from placet.text.truncation import to_single_line

ENTRY = re.compile(r"^group\.policies\[(\d+)\]\S*")  # the API's path of a policy that a command names
policy_options = location_options("policies")


@click.command()
@click.argument("file", type=FILE)
@policy_options
@click.option("--update", metavar="ID", help="Make the one policy in FILE the next version of this one.")
@click.option("--bind", is_flag=True, help="Also bind them, in this order, to every message.")
@json_option
def add(file: Path, update: str | None, bind: bool, as_json: bool, **where: Any) -> None:
    """Save the policies in FILE, TOML or JSON; they apply once they are bound.

    Prints the id of each on standard output. If one is refused, those before it stay saved.
    """
    policies = policies_in(file)
    if update is not None and (len(policies) != 1 or bind):
        raise click.UsageError("--update takes one policy, and no --bind.")

    async def work(relay: Operations) -> list[dict[str, Any]]:
        if update is not None:
            return [await relay.call("updatePolicy", draft_of(policies[0]), policy_id=update)]
        saved = await _save_all(relay, policies, as_json=as_json)
        if bind:
            ids = [one["policyId"] for one in saved]
            made = await _bind(relay, ids, name=file.stem, level={"bindingLevel": "TENANT"})
            click.echo(f"Bound to every message, by {made['id']}.", err=True)
        return saved

    saved = run_policies(where, work, create=True)
    if as_json:
        print_result(saved)
    elif update is not None:
        _print_saved(saved[0])


@click.command("list")
@policy_options
@click.option("--type", "kind", metavar="TYPE", help="Only those of this type, such as REGEX_DETECTION.")
@click.option("--name", metavar="TEXT", help="Only those with this in their name.")
@click.option("--retired", is_flag=True, help="Also those that were retired.")
@json_option
def list_policies(kind: str | None, name: str | None, retired: bool, as_json: bool, **where: Any) -> None:
    """List policies, each in its newest version, and where they are bound."""

    async def work(relay: Operations) -> list[dict[str, Any]]:
        found = await call_all_pages(
            relay, "listPolicies", type=kind, name=name, retired="true" if retired else None
        )
        bound = await _find_bindings(relay)
        return [{**one, "bound": bound.get(one["policyId"], [])} for one in found]

    listed = run_policies(where, work)
    if as_json:
        print_result(listed)
        return
    rows = [
        (one["policyId"], one["version"], mark_hidden(one["name"]), _action(one), _where(one))
        for one in listed
    ]
    print_table(("id", "version", "name", "action", "bound to"), rows, empty="There are no policies.")


@click.command()
@click.argument("policy_id", metavar="ID")
@policy_options
@click.option("--version", "number", metavar="N", help="Default: the newest.")
@json_option
def show(policy_id: str, number: str | None, as_json: bool, **where: Any) -> None:
    """Show a policy, in its newest version or in another."""

    async def work(relay: Operations) -> dict[str, Any]:
        found: dict[str, Any] = (
            await relay.call("getPolicyVersion", policy_id=policy_id, version=number)
            if number
            else await relay.call("getPolicy", policy_id=policy_id)
        )
        return {**found, "bound": (await _find_bindings(relay)).get(policy_id, [])}

    found = run_policies(where, work)
    if as_json:
        print_result(found)
        return
    for name, value in found.items():
        if name == "bound":
            click.echo(f"{name:<12} {_where(found, ids=True)}")
        elif value not in (None, ""):
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            click.echo(f"{name:<12} {mark_hidden(text)}")


@click.command()
@click.argument("policy_ids", metavar="ID...", nargs=-1, required=True)
@policy_options
@click.option("--agent", metavar="ID", help="Only messages that this agent sends or receives.")
@click.option("--source", metavar="ID", help="Only messages from this caller, to --sink.")
@click.option("--sink", metavar="ID", help="Only messages to this agent, from --source.")
@click.option(
    "--priority",
    type=click.IntRange(0, 1_000_000),
    default=0,
    show_default=True,
    help="Among bindings of one level, the lower is looked at first.",
)
@click.option("--name", default="policies", show_default=True, help="The name of their group.")
@click.option("--from", "valid_from", metavar="TIME", help="When it begins, such as 2027-01-01T00:00:00Z.")
@click.option("--to", "valid_to", metavar="TIME", help="When it ends.")
@json_option
def bind(
    policy_ids: tuple[str, ...],
    agent: str | None,
    source: str | None,
    sink: str | None,
    priority: int,
    name: str,
    valid_from: str | None,
    valid_to: str | None,
    as_json: bool,
    **where: Any,
) -> None:
    """Put policies into a group, in this order, and bind it: to every message, an agent's, or a pair's.

    Prints the id of the binding on standard output.
    """
    level = {**_level(agent, source, sink), "priority": priority}
    window = {"validFrom": valid_from, "validTo": valid_to}

    async def work(relay: Operations) -> dict[str, Any]:
        return await _bind(relay, list(policy_ids), name=name, level={**level, **window})

    made = run_policies(where, work)
    if as_json:
        print_result(made)
        return
    click.echo(made["id"])
    click.echo(f"Bound at {made['bindingLevel']} level, through the group {made['groupId']}.", err=True)
    for name in made["unregistered"]:
        click.echo(
            f"Nobody is registered as {mark_hidden(name)}; until then this applies to nothing.", err=True
        )


@click.command()
@click.argument("binding_id", metavar="BINDING")
@policy_options
def unbind(binding_id: str, **where: Any) -> None:
    """Delete a binding, and its group if nothing else is bound to it."""

    async def work(relay: Operations) -> None:
        binding = await relay.call("getPolicyBinding", id=binding_id)
        await relay.call("deletePolicyBinding", id=binding_id)
        others = await relay.call("listPolicyBindings", group_id=binding["groupId"])
        if not others["content"]:
            await relay.call("deletePolicyGroup", id=binding["groupId"])

    run_policies(where, work)
    click.echo(f"Unbound {binding_id}.", err=True)


@click.command()
@click.argument("policy_id", metavar="ID")
@policy_options
def retire(policy_id: str, **where: Any) -> None:
    """Retire a policy that no group names any more: it is never in force again, and stays readable."""

    run_policies(where, lambda relay: relay.call("retirePolicy", policy_id=policy_id))
    click.echo(f"Retired {policy_id}.", err=True)


@click.command()
@click.argument("policy", metavar="FILE|ID")
@policy_options
@click.option("--version", "number", metavar="N", help="Another than the newest version of the policy ID.")
@click.option("--since", default="1d", show_default=True, metavar="TIME", help="A time, or so long ago.")
@click.option("--until", metavar="TIME", help="A time, or so long ago; default: now.")
@click.option(
    "--messages",
    type=click.IntRange(1, 50_000),
    default=1_000,
    show_default=True,
    help="Read no more of them.",
)
@click.option(
    "--seconds", type=click.IntRange(1, 120), default=20, show_default=True, help="Take no longer than that."
)
@click.option(
    "--examples", type=click.IntRange(0, 100), default=10, show_default=True, help="Show so many of them."
)
@json_option
def replay(
    policy: str,
    number: str | None,
    since: str,
    until: str | None,
    messages: int,
    seconds: int,
    examples: int,
    as_json: bool,
    **where: Any,
) -> None:
    """Run a policy over stored messages, and show what it would have held, blocked or masked.

    It is the one in a TOML or JSON file, or a saved one by its id. A server asks for the permissions
    POLICIES:READ and AUDIT:READ.
    """
    asked = {
        "policy": _policy(policy, number),
        "since": _moment(since, "--since"),
        "until": None if until is None else _moment(until, "--until"),
        "limits": {"messages": messages, "seconds": seconds, "examples": examples},
    }

    done = run_policies(where, lambda relay: relay.call("replayPolicy", asked))
    if as_json:
        print_result(done)
        return
    for one in done["examples"]:
        who = one["sourceAgentId"] or one["sourceUserId"]
        click.echo(
            f"{one['sentAt']} {mark_hidden(who)} -> {mark_hidden(one['sinkAgentId'])}: {one['outcome']}"
        )
        click.echo(f"  {one['leg']}: {to_single_line(one['excerpt'] or one['reason'])}")
    click.echo(done["summary"])


async def _save_all(relay: Operations, policies: list[Policy], *, as_json: bool) -> list[dict[str, Any]]:
    saved: list[dict[str, Any]] = []
    for place, one in enumerate(policies):
        try:
            saved.append(await relay.call("createPolicy", draft_of(one)))
        except PlacetError as refusal:
            refusal.add_note(
                f"This is about policies[{place}], {one.name}; {len(saved)} before it are saved."
            )
            raise
        if not as_json:
            _print_saved(saved[-1])
    return saved


def _print_saved(policy: dict[str, Any]) -> None:
    click.echo(policy["policyId"])
    click.echo(f"{mark_hidden(policy['name'])}, version {policy['version']}", err=True)


async def _bind(
    relay: Operations, policy_ids: list[str], *, name: str, level: dict[str, Any]
) -> dict[str, Any]:
    entries = [{"orderIndex": place, "policy": {"policyId": one}} for place, one in enumerate(policy_ids)]
    try:
        group = await relay.call("createPolicyGroup", {"name": name, "policies": entries})
    except PlacetError as refusal:
        refusal.message = ENTRY.sub(lambda found: f"Argument {int(found[1]) + 1}", refusal.message)
        raise
    try:
        made: dict[str, Any] = await relay.call("createPolicyBinding", {"groupId": group["id"], **level})
    except Exception:
        await relay.call("deletePolicyGroup", id=group["id"])
        raise
    return made


async def _find_bindings(relay: Operations) -> dict[str, list[dict[str, Any]]]:
    """Return the bindings of each policy."""
    groups = {one["id"]: one for one in await call_all_pages(relay, "listPolicyGroups")}
    bound: dict[str, list[dict[str, Any]]] = {}
    for binding in await call_all_pages(relay, "listPolicyBindings"):
        for entry in groups.get(binding["groupId"], {}).get("policies", []):
            bound.setdefault(entry["policy"]["policyId"], []).append(binding)
    return bound


def _level(agent: str | None, source: str | None, sink: str | None) -> dict[str, Any]:
    if agent is not None and source is None and sink is None:
        return {"bindingLevel": "AGENT", "agentId": agent}
    if agent is None and source is not None and sink is not None:
        return {"bindingLevel": "SUBSCRIPTION", "sourceAgentId": source, "sinkAgentId": sink}
    if agent is None and source is None and sink is None:
        return {"bindingLevel": "TENANT"}
    raise click.UsageError("Name an --agent, or --source and --sink together, or none of them.")


def _policy(named: str, number: str | None) -> dict[str, Any]:
    """Return a policy from a file, or by its id if there is no file with this name."""
    if Path(named).exists() or not re.fullmatch(r"policy_[0-9a-f]+", named):
        if number is not None:
            raise click.UsageError("--version belongs to the ID of a saved policy.")
        policies = policies_in(Path(named))
        if len(policies) != 1:
            raise ValidationFailed(f"{named} holds {len(policies)} policies; a replay runs one of them.")
        return draft_of(policies[0])
    return {"policyId": named, "version": number}


def _moment(text: str, option: str) -> str:
    """Parse a time, or a duration before now."""
    try:
        return (clock.now() - parse_duration(text)).isoformat()
    except ValidationFailed:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise click.UsageError(
                f"{option} is a time like 2026-11-15T12:00:00Z, or one like 7d."
            ) from error
        return (moment if moment.tzinfo else moment.astimezone()).isoformat()


def _action(policy: dict[str, Any]) -> str:
    config = policy["config"]
    within = config.get("pattern") or config.get("entity") or config
    state = " (retired)" if policy["retiredAt"] else ""
    return f"{within.get('action', '-')}{state}"


def _where(policy: dict[str, Any], *, ids: bool = False) -> str:
    """Return what the policy is bound to, with the ids of the bindings if requested."""
    if policy["origin"] == "settings":
        return "every message, by the settings"
    return (
        ", ".join(_scope(one) + (f" by {one['id']}" if ids else "") for one in policy["bound"]) or "nothing"
    )


def _scope(binding: dict[str, Any]) -> str:
    if binding["bindingLevel"] == "TENANT":
        return "every message"
    if binding["bindingLevel"] == "AGENT":
        return f"agent {mark_hidden(binding['agentId'])}"
    return f"{mark_hidden(binding['sourceAgentId'])} -> {mark_hidden(binding['sinkAgentId'])}"
