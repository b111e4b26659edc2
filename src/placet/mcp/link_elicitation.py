"""Show the review link to the person at the client, past the model if the client supports it.

Clients of the 2025-11-25 revision get `elicitation/create` in URL mode. Those of 2026-07-28 get an
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
from placet.mcp.questions import HEARTBEAT_S, OnNotice, QuestionFollower
from placet.text.truncation import to_single_line, truncate

ToolContext = Context[Any, Any]
LinkResponse = Literal["accept", "decline", "cancel"] | None
ElicitationMode = Literal["push", "retry"] | None
MAX_MESSAGE_LENGTH = 600
LINK = "review"
SHOW_TIMEOUT_S = 300


def find_elicitation_mode(ctx: ToolContext) -> ElicitationMode:
    """Return how this client shows a link, or None if it cannot."""
    capabilities = ctx.client_capabilities
    if capabilities is None or capabilities.elicitation is None or capabilities.elicitation.url is None:
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return "retry"
    return "push" if ctx.session.can_send_request else None


def build_link_request(case: FollowedCase) -> InputRequiredResult:
    """Return a result that makes the client show the link and call again for the same question."""
    params = ElicitRequestURLParams(message=_build_message(case), url=case.review_url)
    return InputRequiredResult(
        input_requests={LINK: ElicitRequest(params=params)}, request_state=case.case_id
    )


def read_link_response(ctx: ToolContext) -> LinkResponse:
    """Return what the person did with the link that the first call made the client show."""
    response = (ctx.input_responses or {}).get(LINK)
    return response.action if isinstance(response, ElicitResult) else "cancel"


async def show_link(
    ctx: ToolContext, case: FollowedCase, followed: QuestionFollower, on_notice: OnNotice
) -> LinkResponse:
    """Make the client show the link; return None if it does not, or if the question ended meanwhile.

    When the question ends, the client is notified that the link is done.
    """
    elicitation_id = secrets.token_urlsafe(16)
    asking = asyncio.create_task(
        ctx.session.elicit_url(
            _build_message(case), case.review_url, elicitation_id, ctx.request_context.request_id
        )
    )
    try:
        await _wait_for_response(asking, followed, on_notice)
        shown = asking.result().action if asking.done() else None
    except (MCPError, ValidationError):
        return None
    finally:
        asking.cancel()
    if shown == "accept":
        session = ctx.session
        followed.on_end(lambda: session.send_elicit_complete(elicitation_id))
    return shown


async def _wait_for_response(
    asking: "asyncio.Task[ElicitResult]", followed: QuestionFollower, on_notice: OnNotice
) -> None:
    """Wait until the person responds to the link, the question ends, or the time is up."""
    for _ in range(round(SHOW_TIMEOUT_S / HEARTBEAT_S)):
        ended, _waiting = await asyncio.wait(
            {asking, followed.task}, timeout=HEARTBEAT_S, return_when=asyncio.FIRST_COMPLETED
        )
        if ended:
            return
        await on_notice(None)


def _build_message(case: FollowedCase) -> str:
    return truncate(f"Your decision is needed: {to_single_line(case.prompt)}", MAX_MESSAGE_LENGTH)
