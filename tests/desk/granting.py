"""A case about tool calls, answered with grants, and calls that would like to run under them."""

from collections.abc import Mapping
from typing import Any

from placet.cases.case import Case, Offer
from placet.cases.grant import Grant
from placet.desk.grants import GrantedCall, GrantService
from placet.reviews.review_type import ReviewType
from placet.testing.desk import ACME, DeskForTests, OpenedCase

MAIL = {"to": "ada@acme.example", "copies": 1}
PATTERNS = {"to": {"glob": "*@acme.example"}, "copies": {"exact": 1}}
CALL = {"id": "call_1", "name": "send_email", "arguments": MAIL, "high_risk": False}
RISKY = {"id": "call_2", "name": "drop_table", "arguments": {"table": "users"}, "high_risk": True}
CONTEXT = {"tool_calls": [CALL, RISKY], "agent": "mailer"}
DECISIONS = {"call_1": {"decision": "approve"}, "call_2": {"decision": "approve"}}


class LenientReviewType(ReviewType):
    """Takes any data: what is granted is judged by the desk itself, whatever its kinds let pass."""

    name = "approval"
    actions: tuple[str, ...] = ("approve", "edit", "reject")
    inline_actions: tuple[str, ...] = ("approve", "reject")
    requires_answer = False
    offers_grants = True

    def validate(self, offer: Offer, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
        return dict(data)

    def build_page_content(self, offer: Offer, values: Mapping[str, Any]) -> dict[str, Any]:
        return {}

    def form_data(self, offer: Offer, pairs: Any) -> dict[str, Any]:
        return {}


def make_grant_service(kit: DeskForTests) -> GrantService:
    return GrantService(store=kit.store, clock=kit.clock, keep_for=kit.desk.limits.keep_for)


def answer_with(**asked: Any) -> dict[str, Any]:
    """The data of an answer that grants the first call; `asked` changes the grant."""
    grant = {"call_id": "call_1", "patterns": PATTERNS, "uses": 5, "for": "1h"} | asked
    return {"decisions": DECISIONS, "grants": [grant]}


async def open_tool_call_case(kit: DeskForTests, **fields: Any) -> OpenedCase:
    return await kit.open(context=CONTEXT, **fields)


async def create_grant(kit: DeskForTests, *, principal: Any = ACME, **asked: Any) -> Grant:
    """A grant that a person gave on the page."""
    opened = await open_tool_call_case(kit, principal=principal)
    await kit.human(opened).answer("approve", answer_with(**asked))
    (grant, *_) = await kit.store.list_grants(principal.name or "")
    return grant


def call(number: int = 1, **changes: Any) -> GrantedCall:
    fields = {"key": f"thread/1/{number}", "id": f"call_{number}", "tool": "send_email", "arguments": MAIL}
    return GrantedCall(**fields | {"agent": "mailer", "thread_id": "thread"} | changes)


async def get_granting_case(kit: DeskForTests, grant: Grant) -> Case:
    case = await kit.store.get_case(grant.case_id)
    assert case is not None
    return case
