"""`placet relay agent`: register the agents behind the relay, list them, remove them."""

from typing import Any

import click

from placet.cli.command_group import CommandGroup
from placet.cli.options import json_option
from placet.cli.output import print_table
from placet.cli.relay_members import registry_options
from placet.cli.relay_operations import run_registry
from placet.cli.results import print_result
from placet.http.operations import Operations, call_all_pages
from placet.relay.settings import VARIABLE
from placet.relay.tenants import DEFAULT_TENANT


@click.group(cls=CommandGroup)
def agent() -> None:
    """Register, list and remove agents."""


@agent.command()
@click.argument("agent_id", metavar="ID")
@click.argument("url")
@registry_options
@click.option("--card-url", metavar="URL", help="URL of the agent card, if it is not below URL.")
@click.option(
    "--credential",
    "credentials",
    metavar="HEADER=VARIABLE",
    multiple=True,
    help="Header to send to the agent, and the server's environment variable with its value.",
)
@click.option(
    "--header",
    "headers",
    metavar="NAME",
    multiple=True,
    help="Header of callers to forward to the agent, besides those of A2A.",
)
@click.option(
    "--input-required",
    type=click.Choice(["hold", "pass"]),
    default="hold",
    show_default=True,
    help="When the agent asks for input: hold it for a person, or pass it to the caller.",
)
@click.option(
    "--unreadable-files",
    type=click.Choice(["hold", "pass"]),
    default="hold",
    show_default=True,
    help="Files that no policy can read: hold them for a person, or let them pass.",
)
@click.option(
    "--streaming",
    type=click.Choice(["window", "whole", "observe"]),
    help="How policies inspect the agent's streams, unless a policy is stricter.",
)
@click.option("--replace", is_flag=True, help="Replace the agent with this id.")
def add(
    agent_id: str,
    url: str,
    card_url: str | None,
    credentials: tuple[str, ...],
    headers: tuple[str, ...],
    input_required: str,
    unreadable_files: str,
    streaming: str | None,
    replace: bool,
    **where: Any,
) -> None:
    """Register the agent at URL under an ID of your choice.

    The value of a credential is never stored. The server reads it from its environment for each call.
    """
    draft = {
        "url": url,
        "cardUrl": card_url,
        "credentials": dict(map(_parse_credential, credentials)),
        "forwardHeaders": headers,
        "inputRequired": input_required,
        "unreadableFiles": unreadable_files,
        "streaming": streaming,
    }

    async def register(relay: Operations) -> Any:
        if replace:
            return await relay.call("changeAgent", draft, agent_id=agent_id)
        return await relay.call("registerAgent", {"agentId": agent_id, **draft})

    _print_registered(run_registry(where, register, create=True))


@agent.command("list")
@registry_options
@json_option
def list_agents(as_json: bool, **where: Any) -> None:
    """List agents and their callers, including those in the settings."""
    found = run_registry(where, lambda relay: call_all_pages(relay, "listAgents"))
    if as_json:
        print_result(found)
        return
    rows = [
        (
            one["agentId"],
            one["url"],
            ", ".join(one["callers"]) or "none",
            ", ".join(f"{name}={variable}" for name, variable in one["credentials"].items()) or "-",
            one["origin"],
        )
        for one in found
    ]
    print_table(("id", "url", "callers", "credentials", "from"), rows, empty="There are no agents yet.")


@agent.command()
@click.argument("agent_id", metavar="ID")
@registry_options
def remove(agent_id: str, **where: Any) -> None:
    """Remove an agent and the subscriptions to it."""
    run_registry(where, lambda relay: relay.call("removeAgent", agent_id=agent_id))
    click.echo(f"Removed {agent_id}.", err=True)


def _print_registered(made: dict[str, Any]) -> None:
    click.echo(made["relayUrl"])
    click.echo(f"Registered {made['agentId']}; callers reach it at this address.", err=True)
    for variable in made["missingVariables"]:
        click.echo(f"The server needs {variable} in its environment.", err=True)
    if not made["callers"]:
        tenant = "" if made["tenantId"] == DEFAULT_TENANT else f" --tenant {made['tenantId']}"
        command = f"placet relay caller add NAME --agent {made['agentId']}{tenant}"
        click.echo(f"It has no callers yet. Add one with: {command}", err=True)


def _parse_credential(text: str) -> tuple[str, str]:
    name, equals, variable = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not HEADER=VARIABLE.", param_hint="--credential")
    if not VARIABLE.fullmatch(variable):
        raise click.BadParameter(
            "name the environment variable that holds the value, not the value.", param_hint="--credential"
        )
    return name, variable
