"""The output of `placet demo`: review links, then the events of their cases."""

import asyncio
import os
import sys
from collections import defaultdict
from datetime import timedelta
from shutil import which
from typing import Any

import click
import msgspec

from placet.bootstrap.server import ServerParts
from placet.cases.events import CREATED
from placet.cli.database import hide_password
from placet.desk import clock
from placet.desk.api_keys import create_key
from placet.pages.view import DemoLink
from placet.ports.identity import INBOX_ALL
from placet.protocol.service_paths import DOCS, INBOX
from placet.reviews.registry import SAMPLES
from placet.server.demo import DEMO_CASES, DemoPages

KEY_LASTS_FOR = timedelta(days=1)
EVENT_TEXTS = {
    "review.opened": "opened by a person",
    "review.in_progress": "being filled in",
    "review.reminder": "reminded",
    "review.completed": "answered",
    "review.expired": "expired",
    "review.cancelled": "withdrawn",
    "review.handed_back": "handed back, still open",
    "review.passed_on": "passed on to a colleague",
}


class DemoTour:
    """Opens one case of each type, and prints what happens to them."""

    _parts: ServerParts
    _demo: DemoPages
    _key: str

    def __init__(self) -> None:
        self._types: dict[str, str] = {}
        self._seen: dict[str, int] = defaultdict(int)
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, parts: ServerParts) -> None:
        """Open a sample case of each type on this server."""
        self._parts, self._demo = parts, parts.add_demo()
        self._key = await create_key(
            parts.store, "you", scopes=(INBOX_ALL,), expires_for=KEY_LASTS_FOR, now=clock.now()
        )
        for type in SAMPLES:
            hitl = msgspec.json.decode(await self._demo.open_sample(type))["hitl"]
            self._types[hitl["case_id"]] = type
            self._demo.links.append(DemoLink(type=type, prompt=hitl["prompt"], url=hitl["review_url"]))

    def begin(self) -> None:
        """Print the links, then every change."""
        base = self._parts.settings.public_url
        click.echo(f"\n  Placet is running at {base}\n  Open it in your browser, or one of its questions:\n")
        for link in self._demo.links:
            click.echo(f"  {_format_bold(_format_name(link.type))}: {link.prompt}\n    {link.url}\n")
        click.echo(f"  Or see all of them in the inbox:\n    {base}{INBOX}")
        click.echo(f"    Sign in with this key: {self._key}\n")
        click.echo("  Point any agent at it:")
        click.echo(f"    {_format_command()} request POST '{base}{DEMO_CASES}?type=confirmation'\n")
        click.echo(f"  API: {base}{DOCS}   Database: {hide_password(self._parts.settings.db)}")
        click.echo("  Ctrl+C stops. The events of the cases appear below:\n")
        self._parts.store.add_change_listener(self._report_change)
        self._demo.add_callback_listener(self._report_callback)

    def _report_change(self, case_id: str | None) -> None:
        if case_id is not None:
            task = asyncio.create_task(self._report_events(case_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _report_events(self, case_id: str) -> None:
        for event in await self._parts.store.list_events(case_id, after=self._seen[case_id]):
            if event.seq <= self._seen[case_id]:
                continue
            self._seen[case_id] = event.seq
            if event.data is not None:
                self._report(case_id, event.type, msgspec.json.decode(event.data))

    def _report(self, case_id: str, name: str, data: dict[str, Any]) -> None:
        if name != CREATED:
            action = data.get("result", {}).get("action")
            self._print_event(case_id, EVENT_TEXTS.get(name, name) + (f": {action}" if action else ""))
        elif case_id not in self._types:
            self._types[case_id] = data["type"]
            self._print_event(case_id, "created through the API")

    def _report_callback(self, body: dict[str, Any]) -> None:
        self._print_event(body["case_id"], f"callback received and verified: {body['event']}")

    def _print_event(self, case_id: str, words: str) -> None:
        name = f"{_format_name(self._types.get(case_id, 'case')):<12}  …{case_id[-6:]}"
        click.echo(f"  {clock.now().astimezone():%H:%M:%S}  {name}  {words}")


def _format_command() -> str:
    """Return the command to type: in a checkout, `placet` may not be on the PATH."""
    return "placet" if which("placet") else sys.argv[0]


def _format_bold(text: str) -> str:
    """Return the text in bold, if the output supports it."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM", "") in ("", "dumb")
    return text if plain else click.style(text, bold=True)


def _format_name(type: str) -> str:
    return type.replace("_", " ")
