"""Every page in every state, made from real cases of every kind, in any language."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from placet.cases.call_receipt import CallReceipt
from placet.cases.case import Case, Decision, Offer, compute_offer_digest
from placet.cases.execution_outcomes import ExecutionOutcome
from placet.desk.asker import Asker
from placet.errors import BadRequest
from placet.pages import (
    ClosedView,
    DemoLink,
    HomeView,
    MessageView,
    PageRenderer,
    PassOnView,
    ReviewView,
    Round,
)
from placet.pages.decided import describe_decided
from placet.pages.diffs import compare
from placet.pages.language import ENGLISH, Language
from placet.pages.page_texts import MESSAGES, NOTICES
from placet.pages.view import InboxView, SignInView, undo_from_context
from placet.protocol.poll import RespondedBy, Result, Status, SubmissionContext
from placet.reviews.registry import REVIEW_TYPES, SAMPLES, load_custom_type, load_review_type
from tests.pages import bodies
from tests.pages.api_sample import OPENAPI
from tests.pages.inbox_views import inbox_views

NOW = datetime(2026, 5, 6, 9, 30, tzinfo=UTC)
STATIC_URL = "/static"
RENDERER = PageRenderer()
DEFAULTS = {"approval": "reject", "confirmation": "abort", "escalation": "abort"}
View = ReviewView | ClosedView | MessageView | PassOnView | HomeView | InboxView | SignInView


def offer_of(body: dict[str, Any]) -> Offer:
    kind = REVIEW_TYPES.get(body["type"], load_custom_type()).variant_for(body["context"])
    return Offer(
        type=body["type"],
        prompt=body["prompt"],
        message=body.get("message", body["prompt"]),
        context=kind.prepare(body["context"]),
        actions=tuple(body.get("actions", kind.actions)),
        affirmative_actions=tuple(body.get("affirmative_actions", ())),
        service=body.get("service"),
        agent=body.get("agent"),
    )


def case_of(offer: Offer, **changes: Any) -> Case:
    case_id = "review_00112233445566778899aabbccddeeff"
    known: dict[str, Any] = {
        "id": case_id,
        "type": offer.type,
        "spec_version": "0.9",
        "created_at": NOW - timedelta(minutes=20),
        "expires_at": NOW + timedelta(hours=2),
        "default_action": "skip",
        "offer_digest": compute_offer_digest(case_id, offer),
        "review_digests": (),
    }
    return Case(**{**known, **changes})


def asker_of(offer: Offer) -> Asker:
    return Asker(role="principal", name="parcel-desk", service=offer.service, agent=offer.agent)


def review_view(offer: Offer, values: dict[str, Any] | None = None, **more: Any) -> ReviewView:
    typed = values or {}
    kind = load_review_type(offer)
    given: dict[str, Any] = {
        "case": case_of(offer, default_action=DEFAULTS.get(offer.type, "skip")),
        "offer": offer,
        "asker": asker_of(offer),
        "template": kind.template,
        "substance": kind.build_page_content(offer, typed),
        "now": NOW,
        "csrf": "csrf-token",
        "idempotency_key": "key-1",
        "static_url": STATIC_URL,
        "page_url": "/review/x",
        "respond_url": "/review/x/respond",
        "hand_back_url": "/review/x/hand-back",
        "pass_on_url": "/review/x/pass-on",
        "opened_url": "/review/x/opened",
        "language_url": "/review/x/language",
        "values": typed,
        "undo": undo_from_context(offer.context),
    }
    return ReviewView(**{**given, **more})


def closed_view(offer: Offer | None, status: Status, **more: Any) -> ClosedView:
    shown = offer or Offer(type="approval", prompt="?", message="?")
    case = case_of(shown, status=status, closed_at=NOW - timedelta(minutes=3), **more.pop("case", {}))
    action = case.decision.result.action if case.decision else None
    decided = describe_decided(load_review_type(offer), offer, action) if offer else None
    given: dict[str, Any] = {
        "decided": decided,
        "asker": asker_of(shown),
        "static_url": STATIC_URL,
        "page_url": "/review/x",
    }
    return ClosedView(case=case, offer=offer, now=NOW, **{**given, **more})


def answered(
    offer: Offer,
    action: str,
    data: dict[str, Any],
    path: Any = "browser_submit",
    by: RespondedBy | None = None,
    receipts: tuple[CallReceipt, ...] = (),
) -> ClosedView:
    decision = Decision(
        result=Result(action=action, data=data), submission=SubmissionContext(mode=path), responded_by=by
    )
    kind = load_review_type(offer)
    shown = kind.list_original_values(offer)
    recap = tuple(
        (name, compare({key: shown[name][key] for key in value}, value) if name in shown else value)
        for name, value in kind.summarize_answer(offer, data)
    )
    said, executions = kind.find_outcome(offer, action), kind.list_executions(offer, data, receipts)
    return closed_view(
        offer,
        Status.COMPLETED,
        recap=recap,
        outcome=said,
        executions=executions,
        case={"decision": decision},
    )


def decided(
    offer: Offer,
    pairs: list[tuple[str, str]],
    move: str = "edit",
    outcomes: Sequence[ExecutionOutcome] = (),
) -> ClosedView:
    """What became of tool calls once the page's form was sent, and their agent reported the first of them."""
    rules = load_review_type(offer)
    turn = rules.handle_post(offer, move, pairs, {})
    assert turn.action is not None
    receipts = tuple(
        CallReceipt(call_id=call_id, outcome=outcome, at=NOW - timedelta(minutes=1))
        for call_id, outcome in zip(rules.list_call_ids(offer.context), outcomes, strict=False)
    )
    data = rules.check(offer, turn.action, turn.data or {})
    return answered(offer, turn.action, data, receipts=receipts)


def turned(
    offer: Offer, move: str, pairs: list[tuple[str, str]], saved: dict[str, Any] | None = None
) -> ReviewView:
    turn = load_review_type(offer).handle_post(offer, move, pairs, saved or {})
    notice = "more_asked" if turn.more_asked else None
    return review_view(offer, turn.values, step=turn.step, problems=turn.problems, notice=notice)


def examples() -> dict[str, Offer]:
    named = {kind.name.removesuffix("-"): kind for kind in (*REVIEW_TYPES.values(), load_custom_type())}
    special = {"tool-calls": SAMPLES["tool_calls"], "held-message": SAMPLES["held_message"]}
    return {name: offer_of(kind.example()) for name, kind in {**named, **special}.items()}


_PAGES: dict[str, dict[str, str]] = {}


def every_page(language: Language = ENGLISH) -> dict[str, str]:
    """All ordinary pages by name."""
    if language.code not in _PAGES:
        _PAGES[language.code] = _render_all(language)
    return dict(_PAGES[language.code])


def _render_all(language: Language) -> dict[str, str]:
    pages = {name: rendered(view, language) for name, view in every_view().items()}
    return {**pages, "docs": RENDERER.render_docs(OPENAPI, static_url=STATIC_URL)}


def heavy_pages(language: Language = ENGLISH) -> dict[str, str]:
    """The largest questions that may be asked."""
    return {
        f"heavy-{name}": rendered(review_view(offer_of(body)), language)
        for name, body in bodies.heavy().items()
    }


def every_view() -> dict[str, View]:
    views = {**open_views(), **wizard_views(), **tool_call_views(), **troubled_views()}
    return {**views, **closed_views(), **other_views()}


def rendered(view: View, language: Language = ENGLISH) -> str:
    spoken = replace(view, language=language)
    if isinstance(spoken, ReviewView):
        return "".join(RENDERER.render_review(spoken))
    if isinstance(spoken, ClosedView):
        return "".join(RENDERER.render_closed_case(spoken))
    if isinstance(spoken, PassOnView):
        return RENDERER.render_pass_on(spoken)
    if isinstance(spoken, InboxView):
        return RENDERER.render_inbox(spoken)
    if isinstance(spoken, SignInView):
        return RENDERER.render_sign_in(spoken)
    return RENDERER.render_home(spoken) if isinstance(spoken, HomeView) else RENDERER.render_message(spoken)


LETTER: dict[str, Any] = REVIEW_TYPES["approval"].example()["context"]["artifact"]
HARSHER = {**LETTER, "body": LETTER["body"].replace("We are sorry for the wait.", "These things happen.")}
VAGUER = {**HARSHER, "subject": "News", "body": HARSHER["body"].replace(" on Thursday", " soon"), "copies": 2}
EARLIER = Round(
    asked_at=NOW - timedelta(days=1),
    prompt="May this reply go out?",
    action="edit",
    recap=(("feedback", "Softer, please.\nAnd shorter."),),
    changes=compare(HARSHER, LETTER),
)
EARLIEST = Round(
    asked_at=NOW - timedelta(days=3),
    prompt="May this reply go out to a customer?",
    action="edit",
    recap=(("feedback", "Name the day."), ("edits", {"subject": "Your bookshelf comes on Thursday"})),
    changes=compare(VAGUER, HARSHER),
)


def open_views() -> dict[str, View]:
    views: dict[str, View] = {f"open-{name}": review_view(offer) for name, offer in examples().items()}
    views |= {f"open-{name}": review_view(offer_of(body)) for name, body in bodies.variants().items()}
    approval = examples()["approval"]
    views["open-approval-second-round"] = review_view(approval, rounds=(EARLIER,))
    views["open-approval-third-round"] = review_view(approval, rounds=(EARLIEST, EARLIER))
    views |= held_message_views()
    views |= {f"notice-{name}": review_view(approval, notice=name) for name in NOTICES}
    for name, left in (("minutes", timedelta(minutes=3)), ("days", timedelta(days=12))):
        case = case_of(approval, expires_at=NOW + left, default_action="approve")
        views[f"open-{name}-left"] = review_view(approval, case=case)
    return views


def held_message_views() -> dict[str, View]:
    """A held message on several pages, and an agent's question with the request behind it."""
    kind = SAMPLES["held_message"]
    long, question = kind.example(), kind.example()
    words = "Room with a view, breakfast at seven, no feathers in the pillows.\n" * 700
    text = {"path": "message.parts[1].text", "length": len(words), "excerpts": [{"at": 0, "text": words}]}
    long["context"]["held_message"]["texts"].append(text)
    asked: dict[str, Any] = {
        "matter": "input",
        "sender": "bookings",
        "receiver": "travel-planner",
        "files": [],
    }
    asked |= {"policy": None, "reason": "The agent asks for input.", "request": ["Book the 9:40 to Lisbon."]}
    said = "Which of the two credit cards may I use?"
    asked |= {"texts": [{"path": "status", "length": len(said), "excerpts": [{"at": 0, "text": said}]}]}
    question["context"]["held_message"] |= asked
    question |= {"prompt": "The agent bookings asks for input. May it continue?"}
    return {
        "held-message-first-part": review_view(offer_of(long)),
        "held-message-last-part": review_view(offer_of(long), step=99),
        "held-message-question": review_view(offer_of(question)),
    }


WAY = [("step", "0"), *(("asked", key) for key in ("traveller", "email", "arrival", "way"))]
FILLED = {
    "traveller": "Ada Byron",
    "email": "ada@example.com",
    "arrival": "2026-09-07",
    "way": "plane",
    "passport": "X1234567",
    "nights": 3,
    "step_free": False,
    "meals": ["fish", "vegetarian"],
    "wishes": "A quiet room,\nplease.",
}


def wizard_views() -> dict[str, View]:
    offer = examples()["input"]
    plane = [*WAY, ("field.traveller", "Ada Byron"), ("field.email", "a@example.com")]
    plane += [("field.arrival", "2026-09-07"), ("field.way", "plane")]
    wrong = [*WAY, ("field.traveller", "A"), ("field.email", "nonsense"), ("field.arrival", "soon")]
    return {
        "wizard-more-asked": turned(offer, "x-next", plane),
        "wizard-problems": turned(offer, "x-next", wrong),
        "wizard-second": review_view(offer, FILLED, step=1),
        "wizard-summary": review_view(offer, FILLED, step=2),
        "wizard-saved-secret": review_view(offer, FILLED, step=0, notice="saved"),
    }


FOUR_WAYS = [
    ("decision.1", "edit"),
    ("edit.1.subject", "Invoice 2026-118: four crates too many"),
    ("edit.1.to", "accounts@pressworks.example\noffice@pressworks.example"),
    ("decision.2", "reject"),
    ("reason.2", "Wait until the barrels have come."),
    ("note", "I am at the press until four."),
]


def tool_call_views() -> dict[str, View]:
    """Decisions half made, wrong, and all kinds of them."""
    offer = examples()["tool-calls"]
    wrong = [*FOUR_WAYS, ("edit.1.to", "nobody\n" * 21), ("edit.1.subject", ""), ("decision.2", "edit")]
    wrong += [("edit.2.amount", "a lot"), ("edit.2.pin", "08-15-27")]
    answering = [("decision.1", "respond"), ("answer.1", "I have written to them myself.")]
    return {
        "calls-half-decided": turned(offer, "x-preview", FOUR_WAYS),
        "calls-problems": turned(offer, "edit", wrong),
        "calls-answered-in-place": turned(offer, "x-preview", answering),
        "calls-contradiction": turned(offer, "approve", FOUR_WAYS),
    }


TRIED: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "approval": ("approval", "approve", {"edits": {"subject": "Soon"}}),
    "approval-empty": ("approval", "edit", {}),
    "selection": ("selection", "select", {"selected": [], "note": "Any"}),
    "confirmation": ("confirmation", "confirm", {"confirmed_items": ["2019-autumn"], "confirm_word": "no"}),
    "escalation": ("escalation", "retry", {"modified_params": {"batch_size": "lots"}}),
}


def troubled_views() -> dict[str, View]:
    views: dict[str, View] = {}
    for name, (type, action, data) in TRIED.items():
        offer = examples()[type]
        problems = refused(offer, action, data)
        views[f"problem-{name}"] = review_view(offer, data, problems=problems)
    return views


def refused(offer: Offer, action: str, data: dict[str, Any]) -> dict[str, str]:
    """What is said about an answer that does not fit."""
    try:
        load_review_type(offer).check(offer, action, data)
    except BadRequest as refusal:
        found: dict[str, str] = refusal.details["fields"]
        return found
    raise AssertionError(f"{action} was taken")


def closed_views() -> dict[str, View]:
    offers = examples()
    approval, ada = offers["approval"], RespondedBy(name="Ada Byron", email="ada@example.com")
    edited = {"feedback": "Shorter", "edits": {"subject": "Soon"}}
    all_items = ["2019-autumn", "2020-spring", "2020-autumn"]
    views: dict[str, View] = {
        "approval": answered(approval, "approve", {"feedback": "Well put."}, "inline_submit"),
        "approval-by-name": answered(approval, "reject", {"feedback": "Not like this."}, by=ada),
        "edit": answered(approval, "edit", edited),
        "selection": answered(offers["selection"], "select", {"selected": ["canal-loft"], "note": "Quiet"}),
        "input": answered(offers["input"], "submit", FILLED),
        "confirmation": answered(offers["confirmation"], "confirm", {"confirmed_items": all_items}),
        "confirmation-cancel": answered(offers["confirmation"], "cancel", {"note": "Keep them."}),
        "escalation": answered(offers["escalation"], "retry", {"modified_params": {"batch_size": 20}}),
        "escalation-abort": answered(offers["escalation"], "abort", {"reason": "Call the supplier."}),
        "x": answered(offers["x"], "allow_once", {}),
        "calls": decided(offers["tool-calls"], [*FOUR_WAYS, ("decision.3", "approve")]),
        "calls-reported": decided(
            offers["tool-calls"], [], "approve", (ExecutionOutcome.RAN, ExecutionOutcome.FAILED)
        ),
        "calls-rejected": decided(offers["tool-calls"], [("note", "Not today.")], "reject"),
        "expired": closed_view(approval, Status.EXPIRED, rounds=(EARLIER,)),
        "expired-as-yes": closed_view(approval, Status.EXPIRED, case={"default_action": "approve"}),
        "cancelled": closed_view(approval, Status.CANCELLED, case={"reason": "Sorted out by phone."}),
        "cancelled-plain": closed_view(approval, Status.CANCELLED),
        "followed": closed_view(approval, Status.CANCELLED, case={"next_case_id": "review_2"}),
        "erased": closed_view(None, Status.COMPLETED, case={"erased_at": NOW}),
    }
    return {f"closed-{name}": view for name, view in views.items()}


def other_views() -> dict[str, View]:
    messages: dict[str, View] = {
        f"message-{name}": MessageView(
            name=name, static_url=STATIC_URL, review_url="/review/x", page_url="/review/x"
        )
        for name in MESSAGES
    }
    links = tuple(
        DemoLink(type=offer.type, prompt=offer.prompt, url=f"/review/{name}")
        for name, offer in examples().items()
    )
    passed_on = PassOnView(
        link="https://placet.example/review/review_00112233?token=" + "x" * 43,
        review_url="/review/x",
        expires_at=NOW + timedelta(hours=2),
        now=NOW,
        static_url=STATIC_URL,
    )
    return {
        **messages,
        "pass-on": passed_on,
        "home": HomeView(static_url=STATIC_URL, links=links, docs_url="/docs", page_url="/"),
        "home-empty": HomeView(static_url=STATIC_URL),
        "home-inbox": HomeView(static_url=STATIC_URL, links=links, inbox_url="/inbox", page_url="/"),
        "open-from-inbox": review_view(examples()["approval"], inbox_url="/inbox"),
        "closed-from-inbox": closed_view(examples()["approval"], Status.EXPIRED, inbox_url="/inbox"),
        "message-from-inbox": MessageView(
            name="too_late", static_url=STATIC_URL, inbox_url="/inbox", page_url="/review/x"
        ),
        **inbox_views(examples(), NOW),
    }
