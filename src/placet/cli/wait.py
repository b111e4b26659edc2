"""`placet wait`: wait for the decision of a case, by its poll URL."""

from datetime import UTC, datetime
from typing import Any

import click
import httpx
import msgspec

from placet.agent import PendingCase, PendingCases, read_case
from placet.agent.pending import default_path
from placet.agent.responses import credentials_of
from placet.cli.case_waiting import CaseWait, WaitOptions, follow, run, wait_options
from placet.cli.progress_line import UNKNOWN_DEADLINE_FOR
from placet.cli.request import Headers, build_request, header_option, send_and_read
from placet.errors import CaseLost, UnreadableAnswer

TOLD_BY_POLLS = ("case_id", "created_at", "expires_at", "previous_case_id")


@click.command()
@click.argument("poll_url", metavar="POLL_URL")
@header_option
@wait_options(via=False)
def wait(poll_url: str, headers: Headers, how: WaitOptions) -> None:
    """Wait for the decision of a case; its person has been told already.

    A case that this machine opened is polled with the credentials it was opened with. Exit codes are those
    of `placet request`.
    """
    call = build_request("GET", poll_url, None, headers)

    async def perform(waiting: CaseWait) -> None:
        await follow(_find_saved_case(str(call.url)) or await _fetch_case(call), waiting)

    run(perform, how)


def _find_saved_case(poll_url: str) -> PendingCase | None:
    """Return the case as it was saved when this machine opened it."""
    if not default_path().exists():
        return None
    cases = PendingCases(default_path())
    try:
        return next((one for one in cases.all() if one.case.poll_url == poll_url and one.is_notified), None)
    finally:
        cases.close()


async def _fetch_case(call: httpx.Request) -> PendingCase:
    """Return the case that the poll URL describes. Raises CaseLost or UnreadableAnswer."""
    response, content = await send_and_read(call)
    if response.status_code != 200:
        raise CaseLost(f"The poll address answered HTTP {response.status_code}.")
    url, now = str(call.url), datetime.now(UTC)
    case = read_case(202, msgspec.json.encode({"hitl": _parse_case(content, url, now)}), url=url, now=now)
    if case is None:
        raise UnreadableAnswer("The address does not answer as a poll address does.")
    return PendingCase(case=case, credentials=credentials_of(call), is_notified=True)


def _parse_case(content: bytes, url: str, now: datetime) -> dict[str, Any]:
    """Return the fields of the 202 of this case that polls repeat."""
    try:
        poll = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        poll = None
    if not isinstance(poll, dict) or not isinstance(poll.get("status"), str):
        raise UnreadableAnswer("The address does not answer as a poll address does.")
    told = {name: poll[name] for name in TOLD_BY_POLLS if poll.get(name) is not None}
    unknown = {"case_id": url, "expires_at": now + UNKNOWN_DEADLINE_FOR, "type": "x-unknown"}
    return {**unknown, **told, "review_url": url, "poll_url": url}
