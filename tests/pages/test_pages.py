"""Every page, taken apart: sound markup, labels, real buttons, nothing inline."""

import gzip
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from placet.cases.case import Offer
from placet.desk.asker import Asker
from placet.pages import MessageView, PageRenderer, read_assets
from placet.pages.assets import ENTRY, STYLESHEET, PageScripts
from placet.pages.language import ENGLISH, Language
from placet.pages.languages import languages
from placet.pages.theme import read_theme
from placet.protocol.poll import Status
from placet.reviews.registry import REVIEW_TYPES, SAMPLES
from tests.pages.gallery import (
    FILLED,
    NOW,
    RENDERER,
    STATIC_URL,
    answered,
    closed_view,
    every_page,
    examples,
    offer_of,
    rendered,
    review_view,
)
from tests.pages.markup import Markup

PAGES = every_page()
GERMAN = languages().get("de")
pages = pytest.mark.parametrize("name", PAGES)


@cache
def markup_of(name: str) -> Markup:
    return Markup(PAGES[name])


def scripts_for(*parts: str) -> list[str]:
    wanted = PageScripts()
    for part in parts:
        wanted.read(part)
    return wanted.names


@pages
def test_the_markup_is_sound_and_nothing_is_inline(name: str) -> None:
    page = markup_of(name)
    assert page.problems == []
    assert len(page.ids()) == len(set(page.ids()))
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert PAGES[name].isascii() or '<meta charset="utf-8">' in PAGES[name]


@pages
def test_every_control_has_a_label(name: str) -> None:
    page = markup_of(name)
    labelled = {attributes.get("for") for attributes in page.all("label")}
    for control in page.all("input", "select", "textarea"):
        if control.get("type") != "hidden":
            assert control["id"] in labelled, control


@pages
def test_nothing_is_loaded_from_elsewhere(name: str) -> None:
    page = markup_of(name)
    scripts = [attributes.get("src") for attributes in page.all("script", "iframe")]
    pictures = [str(attributes.get("src")) for attributes in page.all("img")]
    styles = [attributes["href"] for attributes in page.all("link")]
    assert all(script == f"{STATIC_URL}/placet.js" for script in scripts)
    assert all(picture.startswith(("data:image/", "/")) for picture in pictures)
    assert not any(picture.startswith("//") for picture in pictures)
    own = [f"{STATIC_URL}/inbox.css"] if name.startswith("inbox") else []
    assert styles == [f"{STATIC_URL}/placet.css", f"{STATIC_URL}/icon.svg", *own]


@pages
def test_references_lead_somewhere(name: str) -> None:
    page = markup_of(name)
    ids = set(page.ids())
    for _, attributes in page.tags:
        for pointer in ("for", "aria-describedby", "aria-labelledby"):
            assert set((attributes.get(pointer) or "").split()) <= ids
        if (attributes.get("href") or "").startswith("#"):
            assert str(attributes["href"])[1:] in ids


@pytest.mark.parametrize("type", [*REVIEW_TYPES, "x"])
def test_each_action_is_a_real_button_and_none_is_preselected(type: str) -> None:
    offer = examples()[type]
    page = Markup(rendered(review_view(offer, FILLED if type == "input" else {}, step=2)))
    actions = [button["value"] for button in page.all("button") if button.get("name") == "action"]
    assert [action for action in actions if not str(action).startswith("x-")] == list(offer.actions)
    assert "x-hand-back" in actions
    if type != "input":
        assert not any("checked" in control for control in page.all("input"))


@pytest.mark.parametrize("type", [*REVIEW_TYPES, "x"])
def test_the_form_carries_what_binds_the_answer_to_what_was_shown(type: str) -> None:
    view = review_view(examples()[type])
    page = Markup(rendered(view))
    hidden = {
        control["name"]: control["value"] for control in page.all("input") if control.get("type") == "hidden"
    }
    assert hidden["csrf"] == "csrf-token"
    assert hidden["shown"] == view.case.offer_digest
    assert hidden["idempotency_key"] == "key-1"
    assert {"method": "post", "action": view.respond_url}.items() <= page.all("form")[0].items()


@pytest.mark.parametrize("type", [*REVIEW_TYPES, "x"])
def test_the_first_button_of_a_decision_does_nothing(type: str) -> None:
    step = 2 if type == "input" else 0
    first = Markup(rendered(review_view(examples()[type], step=step))).all("button")[0]
    assert "disabled" in first


def test_who_asks_what_and_until_when_come_first() -> None:
    text = " ".join(Markup(PAGES["open-approval"]).text.split())
    head = text[: text.index("What you approve")]
    for words in (
        "Verified: parcel-desk asks for your approval Says it is: Support assistant",
        "May this reply go out to a customer whose parcel is late?",
        "Open until today 11:30 UTC, in 2 hours. After that, it counts as a no.",
    ):
        assert words in head
    assert "If you approve: It goes ahead exactly as it is shown here." in text[len(head) :]


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("open-")])
def test_a_page_names_who_asks_once(name: str) -> None:
    form = PAGES[name].partition('<form class="answer"')[2]
    head, _, rest = form.partition('<section class="said question">')
    assert head.count("parcel-desk") == 1
    assert "from parcel-desk" not in rest
    assert "says parcel-desk" not in rest
    assert rest.count("<bdi>parcel-desk</bdi>") <= 1  # "Your answer goes to parcel-desk."


def test_problems_stand_at_the_top_and_beside_their_fields() -> None:
    page = Markup(PAGES["wizard-problems"])
    assert page.text.count("Write an email address, such as name@example.com.") == 2
    alert = next(attributes for _, attributes in page.tags if attributes.get("role") == "alert")
    assert "autofocus" in alert
    email = next(control for control in page.all("input") if control.get("name") == "field.email")
    assert (email["value"], email["aria-invalid"]) == ("nonsense", "true")
    assert "e-email" in str(email["aria-describedby"])


def test_a_question_that_follows_from_an_answer_is_asked_without_blame() -> None:
    page = Markup(PAGES["wizard-more-asked"])
    assert "brings up one more question" in page.text
    assert "Nothing was recorded yet" not in page.text
    assert "field.passport" in [control.get("name") for control in page.all("input")]


def test_saved_secrets_are_not_sent_back() -> None:
    for name, html in PAGES.items():
        assert "X1234567" not in html, name
    assert "Saved, and not shown again" in PAGES["wizard-saved-secret"]


def test_what_was_typed_is_still_there_after_a_refusal() -> None:
    page = Markup(PAGES["problem-confirmation"])
    ticked = [control["value"] for control in page.all("input") if "checked" in control]
    assert ticked == ["2019-autumn"]
    assert (
        next(control for control in page.all("input") if control.get("name") == "confirm_word")["value"]
        == "no"
    )


def test_the_enter_key_goes_on_in_a_wizard() -> None:
    first = Markup(PAGES["open-input"]).all("button")[0]
    assert first["value"] == "x-next"


def test_a_closed_case_tells_what_was_answered_and_what_happens_next() -> None:
    text = " ".join(Markup(PAGES["closed-selection"]).text.split())
    for words in ("Recorded 3 minutes ago, today 09:27 UTC", "on this page", "Canal Loft", "Quiet"):
        assert words in text
    assert "by a button in a chat" in " ".join(Markup(PAGES["closed-approval"]).text.split())
    assert not Markup(PAGES["closed-selection"]).all("form")


def test_a_deadline_that_just_passed_is_told_before_the_clock_has_closed_the_case() -> None:
    view = closed_view(examples()["approval"], Status.OPENED)
    assert "Nobody answered in time" in rendered(view)


def test_messages_lead_back_only_where_that_helps() -> None:
    assert 'href="/review/x"' in PAGES["message-not_recorded"]
    assert 'href="/review/x"' not in PAGES["message-wrong_link"]


def test_opening_is_told_only_where_the_server_asks_for_it() -> None:
    told = Markup(rendered(review_view(examples()["approval"])))
    quiet = Markup(rendered(review_view(examples()["approval"], opened_url=None)))
    assert told.all("body") == [{"data-opened-url": "/review/x/opened"}]
    assert quiet.all("body") == [{}]


def test_other_ways_out_are_offered_only_where_they_lead_somewhere() -> None:
    bare = rendered(review_view(examples()["approval"], hand_back_url=None, pass_on_url=None))
    assert len(Markup(bare).all("form")) == 1


def test_context_of_any_shape_is_never_blank_and_never_raw() -> None:
    context: dict[str, Any] = {
        "empty": {},
        "none": None,
        "blank": " ",
        "flag": False,
        "zero": 0,
        "rows": [{"a": 1, "b": "x"}, {"a": 2}],
        "mixed": [1, {"deep": [[{"deeper": {"a": {"b": {"c": "bottom"}}}}]]}],
        "when": "2026-06-18T09:00:00Z",
        "site": "https://example.com/page",
        "odd_site": "http://example.com/page",
    }
    body = {"type": "x-any", "prompt": "Well?", "context": context, "actions": ["go"]}
    page = Markup(rendered(review_view(offer_of(body))))
    text = " ".join(page.text.split())
    for words in (
        "Empty nothing",
        "None nothing",
        "Blank nothing",
        "Flag No",
        "Zero 0",
        "bottom",
        "18 June 2026",
    ):
        assert words in text
    assert not re.search(r"[{}\[\]]|None|null|&#", text.replace("None nothing", ""))
    links = [attributes for attributes in page.all("a") if str(attributes["href"]).startswith("http")]
    assert [link["href"] for link in links] == ["https://example.com/page"]
    assert links[0]["rel"] == "noopener noreferrer nofollow"
    assert links[0]["referrerpolicy"] == "no-referrer"


def test_context_as_deep_as_allowed_is_shown_to_the_bottom() -> None:
    value: object = "bottom"
    for number in range(31):
        value = [value, "more"] if number % 2 else {"inner": value}
    body = {"type": "x-any", "prompt": "Well?", "context": {"deep": value}, "actions": ["go"]}
    assert "bottom" in rendered(review_view(offer_of(body)))


def test_a_service_without_a_name_is_still_named() -> None:
    offer = Offer(type="approval", prompt="Well?", message="Well?", actions=("approve", "edit", "reject"))
    text = Markup(rendered(review_view(offer, asker=Asker()))).text
    assert "Someone without a key asks for your approval" in text
    assert "The service" in Markup(rendered(replace(answered(offer, "approve", {}), asker=Asker()))).text


def test_a_folder_of_templates_comes_before_ours(tmp_path: Path) -> None:
    own = tmp_path / "templates"
    (own / "approval").mkdir(parents=True)
    (own / "message.html").write_text("<p>{{ t(title) }} our way</p>")
    (own / "approval" / "page.html").write_text(
        '{% extends "review.html" %}{% block substance %}Ours{% endblock %}'
    )
    renderer = PageRenderer(theme=read_theme(tmp_path))
    assert "our way" in renderer.render_message(MessageView(name="not_found", static_url=""))
    assert "Ours" in "".join(renderer.render_review(review_view(examples()["approval"])))
    assert "Options" in "".join(renderer.render_review(review_view(examples()["selection"])))


ORDINARY = [name for name in PAGES if name.startswith("open-") and not name.endswith(("-many", "-image"))]


def sent(html: str) -> int:
    """What travels before a page is usable: the page as it is, its style and its scripts compressed."""
    files = [STYLESHEET, ENTRY, *scripts_for(html)]
    return len(html.encode()) + sum(len(gzip.compress(read_assets()[name])) for name in files)


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_page_is_small_with_all_it_needs(name: str) -> None:
    assert sent(PAGES[name]) < 60_000


def test_what_a_description_of_an_api_says_is_shown_and_not_obeyed() -> None:
    info = {"title": "A", "version": "1", "description": "`<i>a</i>` and **<b onclick='x'>**"}
    page = RENDERER.render_docs({"info": info}, static_url=STATIC_URL)
    assert "<code>&lt;i&gt;a&lt;/i&gt;</code> and <strong>&lt;b onclick=&#39;x&#39;&gt;</strong>" in page


def test_the_scripts_that_a_page_asks_for_are_known_before_it_asks() -> None:
    wanted = scripts_for(PAGES["open-approval"])
    assert {"live.js", "send.js", "keep.js", "countdown.js", "localtime.js", "opened.js"} <= set(wanted)
    assert "handover.js" not in wanted
    assert scripts_for(PAGES["docs"]) == []
    assert all(name in read_assets() for name in scripts_for(" ".join(PAGES.values())))
    assert scripts_for(*PAGES["open-approval"].splitlines()) == wanted


def test_what_a_service_says_about_undoing_is_told_and_nothing_is_claimed_beyond_it() -> None:
    said: list[tuple[dict[str, Any], str | None]] = [
        ({"irreversible": True}, "It cannot be undone."),
        ({"reversible": False}, "It cannot be undone."),
        ({"irreversible": False}, "It can be undone."),
        ({"reversible": True, "undo": "Within a day."}, "It can be undone: Within a day."),
        ({"undo": "Ask us.", "irreversible": True}, "It cannot be undone."),
        ({}, None),
        ({"reversible": "perhaps", "undo": " ", "irreversible": 1}, None),
    ]
    for context, words in said:
        body = {"type": "x-any", "prompt": "Well?", "context": context, "actions": ["go"]}
        text = " ".join(Markup(rendered(review_view(offer_of(body)))).text.split())
        assert (words or "Open until") in text
        assert ("be undone" in text) == (words is not None)


@pytest.mark.parametrize(
    ("type", "first"),
    [("approval", "What you approve"), ("escalation", "What failed"), ("selection", "A long story.")],
)
def test_a_long_message_follows_what_is_decided_about_unless_it_explains_a_form(
    type: str, first: str
) -> None:
    text = Markup(
        rendered(review_view(offer_of({**REVIEW_TYPES[type].example(), "message": "A long story. " * 30})))
    ).text
    found = sorted(
        ("Open until", "A long story.", "What you approve", "What failed", "Options"),
        key=lambda words: text.index(words) if words in text else len(text),
    )
    assert found[:2] == ["Open until", first]
    short = Markup(PAGES[f"open-{type}"]).text
    prompt = REVIEW_TYPES[type].example()["message"]
    assert short.index(prompt) < short.index("Open until")


def test_one_tool_call_has_one_set_of_controls() -> None:
    body = SAMPLES["tool_calls"].example()
    body["context"] = {"tool_calls": body["context"]["tool_calls"][:1]}
    page = Markup(rendered(review_view(offer_of(body))))
    assert not [one for one in page.all("input") if str(one.get("name")).startswith("decision.")]
    actions = [str(button["value"]) for button in page.all("button") if button.get("name") == "action"]
    assert [one for one in actions if one not in ("x-preview", "x-hand-back")] == [
        "x-edit",
        "x-respond",
        "approve",
        "reject",
    ]


def test_the_yes_is_filled_and_each_action_has_an_icon_of_its_own() -> None:
    for name in ("approval", "confirmation", "escalation", "tool-calls", "held-message", "x"):
        html = PAGES[f"open-{name}"]
        bar = html[html.index('<div class="bar') : html.index("</form>")]
        tones, icons = re.findall(r'class="(yes|also-yes|no)"', bar), re.findall(r'<path d="([^"]+)"', bar)
        assert tones[0] == "yes"
        assert tones[-1] == "no" or name == "tool-calls"
        assert len(icons) == len(tones)
        assert len(set(icons)) == len(icons) or name == "x"  # allow, and allow once


def test_what_was_decided_about_stays_visible_after_the_answer() -> None:
    for name, words in (
        ("approval", "your bookshelf left our warehouse"),
        ("selection", "Garden Room"),
        ("confirmation", "Autumn 2019"),
        ("escalation", "The supplier"),
        ("calls", "Pays an invoice from the business account."),
        ("expired", "your bookshelf left our warehouse"),
        ("cancelled", "your bookshelf left our warehouse"),
    ):
        assert words in PAGES[f"closed-{name}"], name
    assert "47-11-63" not in PAGES["closed-calls"]


@pytest.mark.parametrize(
    ("labels", "language", "honest"),
    [
        ({"approve": "Send it", "reject": "Keep it"}, ENGLISH, True),
        ({"approve": "Reject the claim", "reject": "Pay after all"}, ENGLISH, True),
        ({"approve": "Confirm"}, ENGLISH, True),
        ({"approve": "Approve"}, ENGLISH, True),
        ({"approve": "Reject", "reject": "Approve"}, ENGLISH, False),
        ({"approve": "REJECT!"}, ENGLISH, False),
        ({"edit": "Approve", "reject": "No"}, ENGLISH, False),
        ({"approve": "Ablehnen"}, ENGLISH, True),
        ({"approve": "Ablehnen"}, GERMAN, False),
        ({"approve": "Reject"}, GERMAN, False),
    ],
)
def test_no_button_bears_the_name_of_another(
    labels: dict[str, str], language: Language, honest: bool
) -> None:
    body = {**REVIEW_TYPES["approval"].example(), "context": {"artifact": "Hello", "action_labels": labels}}
    html = rendered(review_view(offer_of(body)), language)
    said = re.findall(r'class="verb">([^<]+)<', html)
    assert said == [label for label in labels.values() if honest and label != "Approve"]


def test_a_language_can_be_chosen_on_every_page_that_can_be_seen_again() -> None:
    for name, html in PAGES.items():
        links = [link for link in Markup(html).all("a") if "hreflang" in link]
        buttons = [button for button in Markup(html).all("button") if "data-tongue" in button]
        again = name not in ("docs", "pass-on", "home-empty")
        ways = [*links, *buttons]
        assert [way["lang"] for way in ways] == (["de", "es", "fr", "zh", "ar"] if again else []), name
        assert all(str(link["href"]).endswith(f"?lang={link['lang']}") for link in links)
        assert all(str(one["formaction"]).endswith(f"?lang={one['lang']}") for one in buttons)
        assert all(one["form"] == "answer" for one in buttons)


def test_the_clock_of_a_page_is_given_to_it() -> None:
    assert NOW.isoformat()[:10] in PAGES["open-approval"]
