"""Every page in every state, made from real cases of every kind."""

from datetime import UTC, datetime, timedelta
from typing import Any

from assent.cases.case import Case, Decision, Offer, offer_digest
from assent.pages import (
    ClosedView,
    DemoLink,
    HomeView,
    MessageView,
    PageRenderer,
    PassOnView,
    ReviewView,
    Round,
)
from assent.pages.words import MESSAGES
from assent.protocol.poll import Result, Status, SubmissionContext
from assent.reviews import BUILT_IN, CUSTOM, BaseKind

NOW = datetime(2026, 5, 6, 9, 30, tzinfo=UTC)
STATIC_URL = "/static"
RENDERER = PageRenderer()
DEFAULTS = {"approval": "reject", "confirmation": "abort", "escalation": "abort"}

OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Assent", "version": "1", "description": "Open cases.\nFollow them."},
    "paths": {
        "/v1/cases": {
            "post": {
                "operationId": "openCase",
                "summary": "Put a question before a person",
                "parameters": [
                    {"$ref": "#/components/parameters/Key"},
                    {"name": "dry", "in": "query", "schema": {"type": ["boolean", "null"]}},
                ],
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CaseDraft"}}}
                },
                "responses": {
                    "202": {
                        "description": "The case is open.",
                        "content": {"application/json": {"schema": {}}},
                    },
                    "400": {"description": "Something does not fit."},
                },
            }
        },
        "/metrics": {
            "get": {"responses": {"200": {"description": "Figures", "content": {"text/plain": {}}}}}
        },
    },
    "components": {
        "parameters": {
            "Key": {"name": "Idempotency-Key", "in": "header", "required": True, "schema": {"type": "string"}}
        },
        "schemas": {
            "CaseDraft": {
                "type": "object",
                "description": "What a service asks.",
                "required": ["type"],
                "properties": {
                    "type": {"enum": ["approval", "selection"], "description": "The kind."},
                    "version": {"const": "0.9"},
                    "reminder_at": {
                        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "array", "items": {}}]
                    },
                    "surface": {"$ref": "#/components/schemas/Surface"},
                    "anything": True,
                },
            },
            "Surface": {"type": "object"},
        },
    },
}


def kind_of(type: str) -> BaseKind:
    return BUILT_IN.get(type, CUSTOM)


def offer_of(body: dict[str, Any]) -> Offer:
    kind = kind_of(body["type"])
    return Offer(
        type=body["type"],
        prompt=body["prompt"],
        message=body.get("message", body["prompt"]),
        context=kind.prepare(body["context"]),
        actions=tuple(body.get("actions", kind.actions)),
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
        "offer_digest": offer_digest(case_id, offer),
        "review_digests": (),
    }
    return Case(**{**known, **changes})


def review_view(offer: Offer, values: dict[str, Any] | None = None, **more: Any) -> ReviewView:
    typed = values or {}
    kind = kind_of(offer.type)
    given: dict[str, Any] = {
        "case": case_of(offer, default_action=DEFAULTS.get(offer.type, "skip")),
        "offer": offer,
        "template": kind.template,
        "substance": kind.substance(offer, typed),
        "now": NOW,
        "csrf": "csrf-token",
        "idempotency_key": "key-1",
        "static_url": STATIC_URL,
        "respond_url": "/review/x/respond",
        "decline_url": "/review/x/decline",
        "pass_on_url": "/review/x/pass-on",
        "opened_url": "/review/x/opened",
        "values": typed,
    }
    return ReviewView(**{**given, **more})


def closed_view(offer: Offer | None, status: Status, **more: Any) -> ClosedView:
    shown = offer or Offer(type="approval", prompt="?", message="?")
    case = case_of(shown, status=status, closed_at=NOW - timedelta(minutes=3), **more.pop("case", {}))
    return ClosedView(case=case, offer=offer, now=NOW, static_url=STATIC_URL, **more)


def answered(offer: Offer, action: str, data: dict[str, Any], path: Any = "browser_submit") -> ClosedView:
    decision = Decision(result=Result(action=action, data=data), submission=SubmissionContext(mode=path))
    recap = tuple(kind_of(offer.type).recap(offer, data))
    return closed_view(offer, Status.COMPLETED, recap=recap, case={"decision": decision})


def turned(
    offer: Offer, move: str, pairs: list[tuple[str, str]], saved: dict[str, Any] | None = None
) -> ReviewView:
    turn = kind_of(offer.type).turn(offer, move, pairs, saved or {})
    notice = "more_asked" if turn.more_asked else None
    return review_view(offer, turn.values, step=turn.step, problems=turn.problems, notice=notice)


def examples() -> dict[str, Offer]:
    return {kind.name.removesuffix("-"): offer_of(kind.example()) for kind in (*BUILT_IN.values(), CUSTOM)}


def every_page() -> dict[str, str]:
    """All pages by name."""
    return {**open_pages(), **wizard_pages(), **troubled_pages(), **closed_pages(), **other_pages()}


EARLIER = Round(
    asked_at=NOW - timedelta(days=1),
    prompt="May this reply go out?",
    action="edit",
    recap=(("feedback", "Softer, please.\nAnd shorter."),),
)


def open_pages() -> dict[str, str]:
    pages = {f"open-{name}": RENDERER.review(review_view(offer)) for name, offer in examples().items()}
    approval = examples()["approval"]
    pages["open-approval-second-round"] = RENDERER.review(review_view(approval, rounds=(EARLIER,)))
    bare = Offer(
        type="input", prompt="Where shall we meet?", message="Where shall we meet?", actions=("submit",)
    )
    pages["open-input-free"] = RENDERER.review(review_view(bare))
    free = Offer(type="selection", prompt="Which rooms?", message="Which rooms?", actions=("select",))
    pages["open-selection-free"] = RENDERER.review(review_view(free))
    return pages


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


def wizard_pages() -> dict[str, str]:
    offer = examples()["input"]
    plane = [*WAY, ("field.traveller", "Ada Byron"), ("field.email", "a@example.com")]
    plane += [("field.arrival", "2026-09-07"), ("field.way", "plane")]
    wrong = [*WAY, ("field.traveller", "A"), ("field.email", "nonsense"), ("field.arrival", "soon")]
    return {
        "wizard-more-asked": RENDERER.review(turned(offer, "x-next", plane)),
        "wizard-problems": RENDERER.review(turned(offer, "x-next", wrong)),
        "wizard-second": RENDERER.review(review_view(offer, FILLED, step=1)),
        "wizard-summary": RENDERER.review(review_view(offer, FILLED, step=2)),
        "wizard-saved-secret": RENDERER.review(review_view(offer, FILLED, step=0, notice="saved")),
    }


def troubled_pages() -> dict[str, str]:
    tried: dict[str, tuple[str, dict[str, Any]]] = {
        "approval": ("approve", {"edits": {"subject": "Soon"}}),
        "selection": ("select", {"selected": [], "note": "Any"}),
        "confirmation": ("confirm", {"confirmed_items": ["2019-autumn"], "confirm_word": "no"}),
        "escalation": ("retry", {"modified_params": {"batch_size": "lots"}}),
    }
    pages = {}
    for name, (action, data) in tried.items():
        offer = examples()[name]
        try:
            kind_of(name).check(offer, action, data)
        except Exception as refusal:
            problems = refusal.details["fields"]  # type: ignore[attr-defined]
            pages[f"problem-{name}"] = RENDERER.review(review_view(offer, data, problems=problems))
    offer = examples()["approval"]
    missing = {"feedback": "Say what should change, or change it yourself."}
    pages["problem-approval-empty"] = RENDERER.review(review_view(offer, problems=missing))
    return pages


def closed_pages() -> dict[str, str]:
    offers = examples()
    answers = {
        "approval": answered(offers["approval"], "approve", {"feedback": "Well put."}, "inline_submit"),
        "edit": answered(offers["approval"], "edit", {"feedback": "Shorter", "edits": {"subject": "Soon"}}),
        "selection": answered(offers["selection"], "select", {"selected": ["canal-loft"], "note": "Quiet"}),
        "input": answered(offers["input"], "submit", FILLED),
        "confirmation": answered(
            offers["confirmation"],
            "confirm",
            {"confirmed_items": ["2019-autumn", "2020-spring", "2020-autumn"]},
        ),
        "escalation": answered(offers["escalation"], "retry", {"modified_params": {"batch_size": 20}}),
        "x": answered(offers["x"], "allow_once", {}),
    }
    approval = offers["approval"]
    others = {
        "expired": closed_view(approval, Status.EXPIRED, rounds=(EARLIER,)),
        "cancelled": closed_view(approval, Status.CANCELLED, case={"reason": "Sorted out by phone."}),
        "followed": closed_view(approval, Status.CANCELLED, case={"next_case_id": "review_2"}),
        "erased": closed_view(None, Status.COMPLETED, case={"erased_at": NOW}),
    }
    return {f"closed-{name}": RENDERER.closed(view) for name, view in {**answers, **others}.items()}


def other_pages() -> dict[str, str]:
    messages = {
        f"message-{name}": RENDERER.message(
            MessageView(name=name, static_url=STATIC_URL, review_url="/review/x")
        )
        for name in MESSAGES
    }
    links = tuple(
        DemoLink(type=offer.type, prompt=offer.prompt, url=f"/review/{name}")
        for name, offer in examples().items()
    )
    passed_on = PassOnView(
        link="https://assent.example/review/review_00112233?token=" + "x" * 43,
        review_url="/review/x",
        expires_at=NOW + timedelta(hours=2),
        now=NOW,
        static_url=STATIC_URL,
    )
    return {
        **messages,
        "pass-on": RENDERER.pass_on(passed_on),
        "home": RENDERER.home(HomeView(static_url=STATIC_URL, links=links, docs_url="/docs")),
        "home-empty": RENDERER.home(HomeView(static_url=STATIC_URL)),
        "docs": RENDERER.docs(OPENAPI, static_url=STATIC_URL),
    }
