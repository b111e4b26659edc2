"""How the person at the client gets the link: past the model where the client can show it itself.

Clients of the 2025-11-25 revision are asked by `elicitation/create` in URL mode. Those of 2026-07-28 get an
input-required result and call again. All others get the link in the tool's result.
"""

import asyncio
import secrets
from typing import Any, Literal

from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequest, ElicitRequestURLParams, ElicitResult, InputRequiredResult
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from placet.agent import FollowedCase
from placet.mcp.questions import HEARTBEAT_S, Followed, OnNotice
from placet.text.truncation import to_single_line, truncate

ToolContext = Context[Any, Any]
Shown = Literal["accept", "decline", "cancel"] | None
Way = Literal["push", "retry"] | None
LONGEST_MESSAGE = 600
LINK = "review"
SHOW_WITHIN_S = 300


def way(ctx: ToolContext) -> Way:
    """How this client can be brought to show a link; None if it cannot."""
    capabilities = ctx.client_capabilities
    if capabilities is None or capabilities.elicitation is None or capabilities.elicitation.url is None:
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return "retry"
    return "push" if ctx.session.can_send_request else None


def link_required(case: FollowedCase) -> InputRequiredResult:
    """Have the client show the link and call again; the sealed state says for which question."""
    params = ElicitRequestURLParams(message=_message(case), url=case.review_url)
    return InputRequiredResult(
        input_requests={LINK: ElicitRequest(params=params)}, request_state=case.case_id
    )


def shown_before(ctx: ToolContext) -> Shown:
    """What the person did with the link that this call's first round had the client show."""
    response = (ctx.input_responses or {}).get(LINK)
    return response.action if isinstance(response, ElicitResult) else "cancel"


async def show(ctx: ToolContext, case: FollowedCase, followed: Followed, on_notice: OnNotice) -> Shown:
    """Have the client show the link now; None if it does not, or if the question ended meanwhile.

    Once the question has ended, the client is told that there is nothing left to do behind the link.
    """
    elicitation_id = secrets.token_urlsafe(16)
    asking = asyncio.create_task(
        ctx.session.elicit_url(
            _message(case), case.review_url, elicitation_id, ctx.request_context.request_id
        )
    )
    try:
        await _first_of(asking, followed, on_notice)
        shown = asking.result().action if asking.done() else None
    except (MCPError, ValidationError):
        return None
    finally:
        asking.cancel()
    if shown == "accept":
        session = ctx.session
        followed.when_ended(lambda: session.send_elicit_complete(elicitation_id))
    return shown


async def _first_of(asking: "asyncio.Task[ElicitResult]", followed: Followed, on_notice: OnNotice) -> None:
    """Until the person said whether to open the link, the question ended, or the dialog was forgotten."""
    for _ in range(round(SHOW_WITHIN_S / HEARTBEAT_S)):
        ended, _waiting = await asyncio.wait(
            {asking, followed.task}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if ended:
            return
        await on_notice(None)


def _message(case: FollowedCase) -> str:
    return truncate(f"Your decision is needed: {to_single_line(case.prompt)}", LONGEST_MESSAGE)
