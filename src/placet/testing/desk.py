"""A review desk for tests, with an in-memory store, a fake clock and a recording courier."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from placet.bootstrap.storage import open_memory_store
from placet.cases.review_rules import ReviewRules
from placet.cases.wire import build_poll_response
from placet.desk import clock as system_clock
from placet.desk.case_limits import Limits
from placet.desk.case_urls import CaseUrls
from placet.desk.draft import draft_from
from placet.desk.outbox import Outbox
from placet.desk.review_desk import ReviewDesk
from placet.desk.sweep import Sweep
from placet.ports.identity import Principal
from placet.ports.rules_evaluator import RulesEvaluator
from placet.ports.signer import Signer
from placet.ports.store import Store
from placet.ports.verifier import EvidenceVerifier
from placet.protocol.addresses import check_url
from placet.reviews.registry import REVIEW_TYPES, load_custom_type
from placet.testing.clock import FakeClock
from placet.testing.courier import RecordingCourier
from placet.testing.human import ScriptedHuman

ACME = Principal(name="acme")
OTHER = Principal(name="other")
ANONYMOUS = Principal(name=None)
BASE_URL = "https://placet.example"


class OpenedCase(Struct, frozen=True, kw_only=True):
    """A case as its agent sees it: the 202 body, as bytes and as an object."""

    body: bytes
    hitl: dict[str, Any]

    @property
    def id(self) -> str:
        """Return the case's id."""
        return str(self.hitl["case_id"])


class DeskForTests:
    """A desk with its store, clock and courier. A second desk on the same store acts as another process."""

    def __init__(self, desk: ReviewDesk, store: Store, clock: FakeClock, courier: RecordingCourier) -> None:
        self.desk = desk
        self.store = store
        self.clock = clock
        self.courier = courier
        self.sweep = Sweep(desk)
        self.outbox = Outbox(store=store, couriers={"webhook": courier}, clock=clock)

    async def open(
        self,
        type: str = "approval",
        *,
        principal: Principal = ACME,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> OpenedCase:
        """Open the example of the type, with these `fields` of the draft changed."""
        example = (
            REVIEW_TYPES[type].example()
            if type in REVIEW_TYPES
            else {**load_custom_type().example(), "type": type}
        )
        draft = draft_from(example | fields)
        opened = await self.desk.open(draft, principal, idempotency_key=idempotency_key)
        return OpenedCase(body=opened.body, hitl=msgspec.json.decode(opened.body)["hitl"])

    def human(self, opened: OpenedCase) -> ScriptedHuman:
        """Return the reviewer of this case."""
        return ScriptedHuman(
            self.desk, opened.hitl["review_url"], submit_token=opened.hitl.get("submit_token")
        )

    async def poll(self, case_id: str, principal: Principal = ACME) -> dict[str, Any]:
        """Return the poll response, as JSON."""
        case = await self.desk.get_owned_case(case_id, principal)
        read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(build_poll_response(case)))
        return read


def create_desk_for_tests(
    *,
    store: Store | None = None,
    clock: FakeClock | None = None,
    courier: RecordingCourier | None = None,
    signer: Signer | None = None,
    verifier: EvidenceVerifier | None = None,
    limits: Limits | None = None,
    review_types: Mapping[str, ReviewRules] = REVIEW_TYPES,
    sends_callbacks: bool = True,
    evaluator: RulesEvaluator | None = None,
    four_eyes: bool = False,
    monotonic: Callable[[], float] = system_clock.monotonic,
) -> DeskForTests:
    """Return a desk for all review types. Callbacks to any public URL go to its courier."""
    clock = clock or FakeClock()
    store = store or open_memory_store()
    desk = ReviewDesk(
        store=store,
        review_types=review_types,
        custom_type=load_custom_type(),
        addresses=CaseUrls(BASE_URL),
        clock=clock,
        limits=limits,
        signer=signer,
        verifier=verifier,
        evaluator=evaluator,
        four_eyes=four_eyes,
        check_callback=_check_callback if sends_callbacks else None,
        monotonic=monotonic,
    )
    return DeskForTests(desk, store, clock, courier or RecordingCourier())


async def _check_callback(url: str) -> None:
    check_url(url)
