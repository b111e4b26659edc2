"""`placet policy add, list, show, bind, …`: the policies of a server or of a database."""

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from placet.cli.options import json_option, parse_time
from placet.cli.output import print_table
from placet.cli.policy_files import FILE, policy_to_json, read_policies
from placet.cli.relay_operations import add_location_options, run_policies
from placet.cli.results import print_result
from placet.errors import PlacetError, ValidationFailed
from placet.http.operations import Operations, call_all_pages
from placet.relay.policy.policy import Policy
from placet.text.characters import mark_hidden
from placet.text.truncation import to_single_line

ENTRY = re.compile(r"^group\.policies\[(\d+)\]\S*")  # the API's path of a policy that a command names
policy_options = add_location_options("policies")


@click.command()
@click.argument("file", type=FILE)
@policy_options
@click.option(
    "--update", metavar="ID", help="Save the one policy in FILE as the next version of this policy."
)
@click.option("--bind", is_flag=True, help="Also bind the policies, in this order, to every message.")
@json_option
def add(file: Path, update: str | None, bind: bool, as_json: bool, **where: Any) -> None:
    """Save the policies in FILE (TOML or JSON). They apply once they are bound.

    Prints the id of each policy to standard output. If one is refused, those before it stay saved.
    """
    policies = read_policies(file)
    if update is not None and (len(policies) != 1 or bind):
        raise click.UsageError("--update takes one policy, and no --bind.")

    async def work(relay: Operations) -> list[dict[str, Any]]:
        if update is not None:
            return [await relay.call("updatePolicy", policy_to_json(policies[0]), policy_id=update)]
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
@click.option("--type", "policy_type", metavar="TYPE", help="Only this type, such as REGEX_DETECTION.")
@click.option("--name", metavar="TEXT", help="Only policies with this text in their name.")
@click.option("--retired", is_flag=True, help="Include retired policies.")
@json_option
def list_policies(
    policy_type: str | None, name: str | None, retired: bool, as_json: bool, **where: Any
) -> None:
    """List the newest version of each policy, and what it is bound to."""

    async def work(relay: Operations) -> list[dict[str, Any]]:
        found = await call_all_pages(
            relay, "listPolicies", type=policy_type, name=name, retired="true" if retired else None
        )
        bound = await _find_bindings(relay)
        return [{**one, "bound": bound.get(one["policyId"], [])} for one in found]

    listed = run_policies(where, work)
    if as_json:
        print_result(listed)
        return
    rows = [
        (
            one["policyId"],
            one["version"],
            mark_hidden(one["name"]),
            _describe_action(one),
            _describe_bindings(one),
        )
        for one in listed
    ]
    print_table(("id", "version", "name", "action", "bound to"), rows, empty="There are no policies.")


@click.command()
@click.argument("policy_id", metavar="ID")
@policy_options
@click.option("--version", "number", metavar="N", help="Version to show. Default: the newest.")
@json_option
def show(policy_id: str, number: str | None, as_json: bool, **where: Any) -> None:
    """Show a policy and what it is bound to."""

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
            click.echo(f"{name:<12} {_describe_bindings(found, ids=True)}")
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
    help="Order among bindings of one level; lower numbers are checked first.",
)
@click.option("--name", default="policies", show_default=True, help="Name of the policy group.")
@click.option(
    "--from", "valid_from", metavar="TIME", help="Start of the binding, such as 2027-01-01T00:00:00Z."
)
@click.option("--to", "valid_to", metavar="TIME", help="End of the binding.")
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
    """Bind policies, in this order, to every message, to an agent, or to a caller and an agent.

    The policies are put into a new policy group. Prints the id of the binding to standard output.
    """
    level = {**_choose_level(agent, source, sink), "priority": priority}
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
        click.echo(f"{mark_hidden(name)} is not registered. The binding has no effect until it is.", err=True)


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
    """Retire a policy that no group uses. It is never in force again, but can still be shown."""

    run_policies(where, lambda relay: relay.call("retirePolicy", policy_id=policy_id))
    click.echo(f"Retired {policy_id}.", err=True)


@click.command()
@click.argument("policy", metavar="FILE|ID")
@policy_options
@click.option("--version", "number", metavar="N", help="Version of the policy ID. Default: the newest.")
@click.option(
    "--since", default="1d", show_default=True, metavar="TIME", help="Start: a timestamp, or a duration ago."
)
@click.option("--until", metavar="TIME", help="End: a timestamp, or a duration ago. Default: now.")
@click.option(
    "--messages",
    type=click.IntRange(1, 50_000),
    default=1_000,
    show_default=True,
    help="Read at most this many messages.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1, 120),
    default=20,
    show_default=True,
    help="Stop after this many seconds.",
)
@click.option(
    "--examples",
    type=click.IntRange(0, 100),
    default=10,
    show_default=True,
    help="Show at most this many messages.",
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

    The policy is in a TOML or JSON file, or is a saved one, named by its id. On a server, this needs the
    permissions POLICIES:READ and AUDIT:READ.
    """
    asked = {
        "policy": _find_policy(policy, number),
        "since": parse_time("--since", since).isoformat(),
        "until": None if until is None else parse_time("--until", until).isoformat(),
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
    for index, one in enumerate(policies):
        try:
            saved.append(await relay.call("createPolicy", policy_to_json(one)))
        except PlacetError as refusal:
            refusal.add_note(
                f"policies[{index}], {one.name}, was refused. Policies saved before it: {len(saved)}."
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
    entries = [{"orderIndex": index, "policy": {"policyId": one}} for index, one in enumerate(policy_ids)]
    try:
        group = await relay.call("createPolicyGroup", {"name": name, "policies": entries})
    except PlacetError as refusal:
        message = ENTRY.sub(lambda found: f"Argument {int(found[1]) + 1}", refusal.message)
        if message == refusal.message:
            raise
        raise ValidationFailed(message, **refusal.details) from refusal
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


def _choose_level(agent: str | None, source: str | None, sink: str | None) -> dict[str, Any]:
    if agent is not None and source is None and sink is None:
        return {"bindingLevel": "AGENT", "agentId": agent}
    if agent is None and source is not None and sink is not None:
        return {"bindingLevel": "SUBSCRIPTION", "sourceAgentId": source, "sinkAgentId": sink}
    if agent is None and source is None and sink is None:
        return {"bindingLevel": "TENANT"}
    raise click.UsageError("Pass --agent, or --source and --sink together, or none of them.")


def _find_policy(named: str, number: str | None) -> dict[str, Any]:
    """Return a policy from a file, or by its id if there is no file with this name."""
    if Path(named).exists() or not re.fullmatch(r"policy_[0-9a-f]+", named):
        if number is not None:
            raise click.UsageError("--version needs the ID of a saved policy, not a file.")
        policies = read_policies(Path(named))
        if len(policies) != 1:
            raise ValidationFailed(f"{named} has {len(policies)} policies. A replay needs a file with one.")
        return policy_to_json(policies[0])
    return {"policyId": named, "version": number}


def _describe_action(policy: dict[str, Any]) -> str:
    config = policy["config"]
    within = config.get("pattern") or config.get("entity") or config
    state = " (retired)" if policy["retiredAt"] else ""
    return f"{within.get('action', '-')}{state}"


def _describe_bindings(policy: dict[str, Any], *, ids: bool = False) -> str:
    """Return what the policy is bound to, with the ids of the bindings if requested."""
    if policy["origin"] == "settings":
        return "every message, by the settings"
    return (
        ", ".join(_describe_scope(one) + (f" by {one['id']}" if ids else "") for one in policy["bound"])
        or "nothing"
    )


def _describe_scope(binding: dict[str, Any]) -> str:
    if binding["bindingLevel"] == "TENANT":
        return "every message"
    if binding["bindingLevel"] == "AGENT":
        return f"agent {mark_hidden(binding['agentId'])}"
    return f"{mark_hidden(binding['sourceAgentId'])} -> {mark_hidden(binding['sinkAgentId'])}"
