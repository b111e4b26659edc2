"""`placet wait`: wait for the decision of a case, by its poll URL."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click
import httpx
import msgspec

from placet.agent import PendingCase, PendingCases, read_case
from placet.agent.flow import limit_response_time
from placet.agent.pending_case_store import get_default_path
from placet.agent.responses import is_stream, select_credentials
from placet.cli.case_waiting import CaseWait, WaitOptions, follow, run, wait_options
from placet.cli.progress_line import UNKNOWN_DEADLINE_FOR
from placet.cli.request import Headers, add_header_option, build_request, send_and_read
from placet.errors import CaseLost, UnreadableAnswer
from placet.protocol.poll import Status
from placet.protocol.versions import DEFAULT_VERSION
from placet.reviews.registry import list_clear_affirmative_actions

NOT_A_POLL_URL = (
    "This is not a poll URL: it leads to a page, as a review link does. The review link is for the person."
    " Pass the case's poll_url, which is beside review_url in the response that opened the case."
)
NOT_AN_EVENT_STREAM = (
    "This is not a poll URL: it sends an event stream, as an events_url does. Pass the case's poll_url, which"
    " is beside events_url in the response that opened the case."
)
CREDENTIALS_NEEDED = "Pass the credentials that opened the case with -H 'Authorization: Bearer …'."
STATUSES = [status.value for status in Status]
POLL_FIELDS = ("case_id", "created_at", "expires_at", "previous_case_id")


@click.command()
@click.argument("poll_url", metavar="POLL_URL")
@add_header_option
@click.option(
    "--affirmative",
    "affirmative",
    multiple=True,
    metavar="ACTION",
    help="Only this action is a yes. Repeatable. For a case of a custom type, and for retry and skip.",
)
@wait_options(via=False)
def wait(poll_url: str, headers: Headers, affirmative: tuple[str, ...], how: WaitOptions) -> None:
    """Wait for the decision of a case, by its poll URL. Notifies nobody.

    A case that was created on this machine is polled with the credentials that created it; its review link
    works as well. Exit codes are those of `placet request`. A poll URL does not tell the type of the case, so
    for a case of another machine only approve, select, submit and confirm are a yes, or what you name with
    --affirmative.
    """
    call = build_request("GET", poll_url, None, headers)

    async def perform(waiting: CaseWait) -> None:
        saved = _find_saved_case(str(call.url))
        await follow(saved or await _fetch_case(call, affirmative, how.max_wait), waiting)

    run(perform, how)


def _find_saved_case(url: str) -> PendingCase | None:
    """Return the case with this poll URL or review link, as it was saved when this machine opened it."""
    if not get_default_path().exists():
        return None
    cases = PendingCases(get_default_path())
    try:
        saved = (one for one in cases.list_pending() if one.is_notified)
        return next((one for one in saved if url in (one.case.poll_url, one.case.review_url)), None)
    finally:
        cases.close()


def _require_poll_response(response: httpx.Response) -> None:
    """Raise CaseLost or UnreadableAnswer unless this may be a poll response."""
    media = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.is_redirect or (response.status_code == 200 and media == "text/html"):
        raise UnreadableAnswer(NOT_A_POLL_URL)
    if is_stream(response):
        raise UnreadableAnswer(NOT_AN_EVENT_STREAM)
    if response.status_code != 200:
        needed = f" {CREDENTIALS_NEEDED}" if response.status_code in (401, 403) else ""
        raise CaseLost(f"The poll URL answered HTTP {response.status_code}.{needed}")


async def _fetch_case(
    call: httpx.Request, affirmative: tuple[str, ...], max_wait: timedelta | None
) -> PendingCase:
    """Return the case that the poll URL describes. Raises CaseLost or UnreadableAnswer."""
    within_s = limit_response_time(max_wait)
    _, content = await send_and_read(call, check=_require_poll_response, within_s=within_s)
    url, now = str(call.url), datetime.now(UTC)
    yes = {"affirmative_actions": affirmative or list_clear_affirmative_actions()}
    known = msgspec.json.encode({"hitl": _parse_case(content, url, now), "data": yes})
    case = read_case(202, known, url=url, now=now)
    if case is None:
        raise UnreadableAnswer(
            "The URL did not return a poll response. Check that it is the case's poll_url."
        )
    return PendingCase(case=case, credentials=select_credentials(call), is_notified=True)


def _parse_case(content: bytes, url: str, now: datetime) -> dict[str, Any]:
    """Return the fields of the 202 of this case that polls repeat."""
    try:
        poll = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        poll = None
    if not isinstance(poll, dict) or poll.get("status") not in STATUSES:
        raise UnreadableAnswer(
            "The URL did not return a poll response. Check that it is the case's poll_url."
        )
    known = {name: poll[name] for name in POLL_FIELDS if poll.get(name) is not None}
    unknown = {"case_id": url, "expires_at": now + UNKNOWN_DEADLINE_FOR, "type": "x-unknown"}
    return {**unknown, **known, "spec_version": DEFAULT_VERSION, "review_url": url, "poll_url": url}
