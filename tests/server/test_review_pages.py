"""The person's side: a link that leaves no token behind, a page that changes nothing until someone acts."""

import re
from html import unescape
from typing import Any

import httpx
import pytest

from placet.reviews.registry import REVIEW_TYPES
from tests.server.running import ReviewPage, RunningServer

PREVIEWERS = [
    "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)",
    "Slack-ImgProxy (+https://api.slack.com/robots)",
    "TelegramBot (like TwitterBot)",
    "WhatsApp/2.23.20.0",
    "Mozilla/5.0 (compatible; Discordbot/2.0; +https://discordapp.com)",
    "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5",
    "Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0)",
    "Mozilla/5.0 (compatible; MicrosoftPreview/2.0)",
    "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)",
    "Twitterbot/1.0",
    "LinkedInBot/1.0 (compatible; Mozilla/5.0)",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    "Mozilla/5.0 (compatible; YandexBot/3.0)",
    "Mozilla/5.0 (Macintosh) AppleWebKit/601.2.4 (Applebot/0.1)",
    "Barracuda Sentinel (EE)",
    "Mimecast URL Protect",
    "ProofPoint URL Defense",
    "Iframely/1.3.1 (+https://iframely.com/docs/about)",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 HeadlessChrome/120.0",
]
LETTER = {"type": "approval", "prompt": "Send the letter?", "context": {"artifact": "Dear Ada"}}


def token_of(hitl: dict[str, Any]) -> str:
    return str(hitl["review_url"].partition("token=")[2])


def page_path(hitl: dict[str, Any]) -> str:
    return f"/review/{hitl['case_id']}"


def poll(client: httpx.Client, hitl: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.get(hitl["poll_url"]).json()
    return found


def log_of(server: RunningServer, hitl: dict[str, Any]) -> list[tuple[str, str]]:
    events = server.run(server.parts.desk.store.list_events(hitl["case_id"]))
    return [(event.type, event.actor) for event in events]


@pytest.fixture
def hitl(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    return server.open(client)


# The link


def test_the_link_is_exchanged_for_a_session_and_the_token_leaves_the_address(
    server: RunningServer, hitl: dict[str, Any]
) -> None:
    with server.client() as person:
        entered = person.get(hitl["review_url"])
        assert entered.status_code == 303
        assert entered.headers["location"] == page_path(hitl)
        assert token_of(hitl) not in entered.headers["set-cookie"]
        shown = person.get(page_path(hitl))
    assert shown.status_code == 200
    assert hitl["prompt"] in unescape(shown.text)
    assert token_of(hitl) not in shown.text


def test_the_session_is_a_cookie_for_this_case_alone_that_no_script_can_read(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.client() as person:
        cookie = person.get(hitl["review_url"]).headers["set-cookie"]
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/", "max-age=43200"} == attributes
    other = server.open(client)
    value = cookie.partition("=")[2].partition(";")[0]
    with server.client() as thief:
        name = server.parts.replies.cookies.case(other["case_id"])
        refused = thief.get(page_path(other), headers={"Cookie": f"{name}={value}"})
    assert refused.status_code == 401


def test_pages_keep_what_they_show_to_themselves(server: RunningServer, hitl: dict[str, Any]) -> None:
    with server.client() as person:
        for response in (
            person.get(hitl["review_url"]),
            person.get(page_path(hitl)),
            person.get("/review/nothing"),
        ):
            headers = response.headers
            assert headers["cache-control"] == "no-store"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["x-robots-tag"] == "noindex, nofollow"
            assert headers["x-frame-options"] == "DENY"
            assert headers["x-content-type-options"] == "nosniff"
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe-inline" not in policy
            assert "frame-ancestors 'none'" in policy
        text = person.get(page_path(hitl)).text
    addresses = re.findall(r'(?:src|href|action)="([^"]+)"', text)
    assert addresses
    assert all(address.startswith(("/", "#", "data:,")) for address in addresses)
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|<style", text)


@pytest.mark.parametrize("change", ["cut", "changed", "other", "submit", "key", "empty", "long"])
def test_a_link_with_any_other_token_opens_nothing(
    server: RunningServer, client: httpx.Client, change: str
) -> None:
    hitl, other = server.open(client, inline_actions=["confirm"]), server.open(client)
    right = token_of(hitl)
    tokens = {
        "cut": right[:-1],
        "changed": ("B" if right[0] == "A" else "A") + right[1:],
        "other": token_of(other),
        "submit": hitl["submit_token"],
        "key": server.api_key,
        "empty": "",
        "long": "x" * 5000,
    }
    with server.client() as person:
        refused = person.get(f"{page_path(hitl)}?token={tokens[change]}")
    assert refused.status_code == 401
    assert refused.headers["content-type"].startswith("text/html")
    assert "set-cookie" not in refused.headers
    assert hitl["prompt"] not in unescape(refused.text)


def test_without_a_link_there_is_nothing_to_see(server: RunningServer, hitl: dict[str, Any]) -> None:
    with server.client() as person:
        assert person.get(page_path(hitl)).status_code == 401
        assert person.get("/review/review_nothing").status_code == 404
        assert person.get("/review/review_nothing?token=x").status_code == 404
        for cookie in ("", "x", "..", "a.b.c", "x" * 32 + ".9999999999." + "0" * 64, "é", "x" * 9000):
            headers = [(b"Cookie", f"placet_case.{hitl['case_id']}={cookie}".encode())]
            assert person.get(page_path(hitl), headers=headers).status_code == 401


def test_a_browser_that_keeps_no_cookies_is_told_so(server: RunningServer, hitl: dict[str, Any]) -> None:
    with server.client() as person:
        led = person.get(hitl["review_url"])
        person.cookies.clear()
        page = person.get(led.headers["location"])
    assert page.status_code == 401
    assert "let your browser keep cookies of this site" in page.text


@pytest.mark.parametrize("part", ["respond", "hand-back", "pass-on"])
def test_an_address_that_takes_forms_leads_back_to_the_page(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], part: str
) -> None:
    with server.client(follow_redirects=True) as person:
        person.get(hitl["review_url"])
        page = person.get(f"{page_path(hitl)}/{part}")
        assert page.status_code == 200
        assert str(page.url).endswith(page_path(hitl))
    assert poll(client, hitl)["status"] == "pending"


@pytest.mark.parametrize("cut", ["/review", "/review/"])
def test_a_link_that_was_cut_off_early_says_so(server: RunningServer, cut: str) -> None:
    with server.client() as person:
        page = person.get(cut, headers={"Accept-Language": "de"})
        assert page.status_code == 401
        assert '<html lang="de"' in page.text
        assert 'href="/review/?lang=fr"' in page.text


def test_no_program_that_previews_links_changes_a_case(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    for previewer in PREVIEWERS:
        with server.client(follow_redirects=True) as bot:
            bot.headers["User-Agent"] = previewer
            assert bot.head(hitl["review_url"]).status_code == 200
            assert bot.get(hitl["review_url"]).status_code == 200
            assert bot.options(page_path(hitl)).status_code == 405
    assert poll(client, hitl)["status"] == "pending"
    assert [name for name, _ in log_of(server, hitl)] == ["review.created"]


def test_a_link_may_be_opened_as_often_as_one_likes(server: RunningServer, hitl: dict[str, Any]) -> None:
    for _ in range(3):
        with server.page(hitl) as page:
            assert page.response.status_code == 200


# What a person does


def test_the_pages_own_script_says_that_it_was_opened(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        address = re.search(r'data-opened-url="([^"]+)"', page.text)
        assert address is not None
        told = page.client.post(address[1], data={"csrf": page.hidden_fields()["csrf"]})
        assert (told.status_code, told.content) == (204, b"")
        assert poll(client, hitl)["status"] == "opened"
        page.client.post(address[1], data={"csrf": page.hidden_fields()["csrf"]})
    assert [name for name, _ in log_of(server, hitl)] == ["review.created", "review.opened"]


@pytest.mark.parametrize("verb", ["respond", "opened", "hand-back", "pass-on"])
def test_a_post_that_did_not_come_from_our_page_is_refused(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], verb: str
) -> None:
    other = server.open(client)
    with server.page(hitl) as page, server.page(other) as strange:
        form = {**page.hidden_fields(), "action": "confirm"}
        for forged in ("", "x", "é", strange.hidden_fields()["csrf"], form["csrf"].upper() + "0"):
            refused = page.client.post(f"{page_path(hitl)}/{verb}", data={**form, "csrf": forged})
            assert refused.status_code == 401
        del form["csrf"]
        assert page.client.post(f"{page_path(hitl)}/{verb}", data=form).status_code == 401
    with server.client() as stranger:
        refused = stranger.post(
            f"{page_path(hitl)}/{verb}", data={**page.hidden_fields(), "action": "confirm"}
        )
        assert refused.status_code == 401
    assert poll(client, hitl)["status"] == "pending"
    assert len(log_of(server, hitl)) == 1


def test_an_answer_by_form_is_taken_and_shown(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        answered = page.post("respond", {"action": "confirm", "note": "gladly"})
        assert [one.status_code for one in answered.response.history] == [303]
        assert answered.response.url.path == page_path(hitl)
        assert "Confirmed" in answered.text
        again = page.client.get(page_path(hitl))
    found = poll(client, hitl)
    assert found["result"]["action"] == "confirm"
    assert found["result"]["data"] == {"note": "gladly"}
    assert found["submission_context"] == {"mode": "browser_submit"}
    assert "Confirmed" in again.text
    assert "<form" not in again.text
    names = [name for name, _ in log_of(server, hitl)]
    assert names[0] == "review.created"
    assert names[-1] == "review.completed"


def test_a_double_click_is_one_answer(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        first = page.post("respond", {"action": "confirm"})
        second = page.post("respond", {"action": "confirm"})
    assert first.response.status_code == second.response.status_code == 200
    assert poll(client, hitl)["result"]["action"] == "confirm"


def test_the_second_answer_gets_a_page_that_says_so(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as one, server.page(hitl) as other:
        one.post("respond", {"action": "confirm"})
        late = other.post("respond", {"action": "cancel"})
        assert late.response.status_code == 409
        assert "Someone else was first" in late.text
        assert f'href="{page_path(hitl)}"' in late.text
    assert poll(client, hitl)["result"]["action"] == "confirm"


def test_an_answer_to_something_else_than_was_shown_is_not_recorded(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        for shown in ("0" * 64, ""):
            refused = page.post("respond", {"action": "confirm", "shown": shown})
            assert refused.response.status_code == 409
            assert "not what you were shown" in refused.text
        form = {name: value for name, value in page.hidden_fields().items() if name != "shown"}
        without = page.client.post(f"{page_path(hitl)}/respond", data={**form, "action": "confirm"})
        assert without.status_code == 409
    assert poll(client, hitl)["status"] == "pending"


def test_what_is_wrong_is_said_beside_what_was_typed(server: RunningServer, client: httpx.Client) -> None:
    options = [{"id": "a", "title": "First"}, {"id": "b", "title": "Second"}]
    hitl = server.open(client, type="selection", context={"options": options, "max_selections": 1})
    with server.page(hitl) as page:
        refused = page.post("respond", {"action": "select", "selected": ["a", "b"], "note": "both, please"})
        assert refused.response.status_code == 400
        assert "both, please" in refused.text
        assert "you chose 2" in refused.text
    with server.page(hitl) as page:
        page.post("respond", {"action": "select", "selected": "b"})
    assert poll(client, hitl)["result"]["data"]["selected"] == ["b"]


@pytest.mark.parametrize(
    ("draft", "fields", "data"),
    [
        (LETTER, {"action": "approve"}, {}),
        (LETTER, {"action": "reject", "feedback": "no"}, {"feedback": "no"}),
        (LETTER, {"action": "edit", "feedback": "warmer"}, {"feedback": "warmer"}),
        (
            {"type": "selection", "context": {"options": [{"id": "a", "title": "A"}]}},
            {"action": "select", "selected": "a"},
            {"selected": ["a"]},
        ),
        (
            {
                "type": "input",
                "context": {"form": {"fields": [{"key": "n", "label": "N", "type": "number"}]}},
            },
            {"action": "submit", "asked": "n", "step": "0", "field.n": "7"},
            {"n": 7},
        ),
        ({"type": "confirmation"}, {"action": "cancel"}, {}),
        (
            {"type": "escalation", "context": {"error": "No answer", "params": {"wait": 5}}},
            {"action": "retry", "param.wait": "9"},
            {"modified_params": {"wait": 9}},
        ),
        ({"type": "x-compare", "actions": ["left", "right"]}, {"action": "left"}, {}),
    ],
    ids=lambda value: value.get("action", "") if isinstance(value, dict) else "",
)
def test_each_type_is_answered_by_its_form(
    server: RunningServer,
    client: httpx.Client,
    draft: dict[str, Any],
    fields: dict[str, Any],
    data: dict[str, Any],
) -> None:
    hitl = server.open(client, **draft)
    with server.page(hitl) as page:
        answered = page.post("respond", fields)
        assert answered.response.status_code == 200, answered.text
    result = poll(client, hitl)["result"]
    assert (result["action"], result["data"]) == (fields["action"], data)


def read_hand_back_reason(server: RunningServer, hitl: dict[str, Any]) -> str:
    case = server.run(server.parts.store.get_case(hitl["case_id"]))
    assert case is not None
    [step] = case.handed_back
    return step.reason or ""


def test_not_deciding_may_have_a_reason_picked_and_one_written(
    server: RunningServer, client: httpx.Client
) -> None:
    said = {
        "This is not mine to decide.": {"why": "not_mine"},
        "I do not know enough to decide this.\n\nAsk Ada": {"why": "too_little", "reason": " Ask Ada "},
        "Only words": {"why": "nonsense", "reason": "Only words"},
    }
    for reason, fields in said.items():
        hitl = server.open(client)
        with server.page(hitl) as page:
            assert "You handed this question back" in page.post("hand-back", fields).text
        assert read_hand_back_reason(server, hitl) == reason


# A service's own page, in JSON


def test_an_answer_in_json_under_the_review_token_is_taken(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    address = f"{page_path(hitl)}/respond"
    with server.client() as own_page:
        answered = own_page.post(f"{address}?token={token_of(hitl)}", json={"action": "confirm", "data": {}})
        assert answered.status_code == 200
        assert answered.json()["result"]["action"] == "confirm"
        assert answered.headers["cache-control"] == "no-store"
        second = own_page.post(f"{address}?token={token_of(hitl)}", json={"action": "cancel"})
    assert (second.status_code, second.json()["error"]) == (409, "duplicate_submission")
    assert poll(client, hitl)["submission_context"]["mode"] == "browser_submit"


def test_the_review_token_may_stand_in_the_header_and_an_answer_may_be_repeated(
    server: RunningServer, hitl: dict[str, Any]
) -> None:
    with server.client(token_of(hitl)) as own_page:
        key = {"Idempotency-Key": "once"}
        first = own_page.post(f"{page_path(hitl)}/respond", json={"action": "confirm"}, headers=key)
        again = own_page.post(f"{page_path(hitl)}/respond", json={"action": "confirm"}, headers=key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"{", 400, "invalid_json"),
        (b"[]", 400, "invalid_submission"),
        (b'{"action": "approve"}', 400, "invalid_action"),
        (b'{"action": "confirm", "data": {"x": 1}}', 400, "invalid_submission"),
        (b'{"action": "confirm", "responded_by": {"name": "Ada"}}', 400, "invalid_submission"),
        (b'{"action": "confirm", "shown": "' + b"0" * 64 + b'"}', 409, "content_changed"),
        (b"x" * (1024 * 1024 + 1), 413, "invalid_request"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_answer_in_json_that_does_not_fit_is_a_flat_error(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], body: bytes, status: int, error: str
) -> None:
    with server.client() as own_page:
        address = f"{page_path(hitl)}/respond?token={token_of(hitl)}"
        refused = own_page.post(address, content=body, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["error"]) == (status, error)
    assert poll(client, hitl)["status"] == "pending"


def test_json_needs_the_review_token_and_believes_no_cookie(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, inline_actions=["confirm"])
    address = f"{page_path(hitl)}/respond"
    with server.page(hitl) as page:
        refused = page.client.post(address, json={"action": "confirm"})
        assert (refused.status_code, refused.json()["error"]) == (401, "invalid_token")
    with server.client() as own_page:
        for wrong in ("", "x", hitl["submit_token"], server.api_key):
            refused = own_page.post(f"{address}?token={wrong}", json={"action": "confirm"})
            assert (refused.status_code, refused.json()["error"]) == (401, "invalid_token")
    assert poll(client, hitl)["status"] == "pending"


# The wizard, without a script

JOURNEY = {"traveller": "Ada Lovelace", "email": "ada@example.org", "arrival": "2026-09-07", "way": "plane"}


def step(page: ReviewPage, move: str, **fields: Any) -> ReviewPage:
    """Send one step of a wizard: what the page asked, and these answers."""
    asked = re.findall(r'name="asked" value="([^"]+)"', page.text)
    number = re.search(r'name="step" value="(\d+)"', page.text)
    answers = {f"field.{key}": value for key, value in fields.items()}
    own = {"action": move, "asked": asked, "step": number[1] if number else "0"}
    return page.post("respond", {**own, **answers})


def visit(server: RunningServer, person: httpx.Client, hitl: dict[str, Any]) -> ReviewPage:
    return ReviewPage(person, person.get(hitl["review_url"]))


def test_a_form_of_several_steps_is_filled_in_page_by_page(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, **REVIEW_TYPES["input"].example())
    with server.client(follow_redirects=True) as person:
        page = visit(server, person, hitl)
        assert "Step 1 of 3" in page.text
        held = step(page, "x-next", **{**JOURNEY, "email": "nowhere", "way": "own"})
        assert held.response.status_code == 400
        assert "Ada Lovelace" in held.text
        page = visit(server, person, hitl)
        asked_more = step(page, "x-next", **JOURNEY)
        assert "one more question" in asked_more.text
        page = visit(server, person, hitl)
        assert 'name="field.passport"' in page.text
        page = step(page, "x-next", **JOURNEY, passport="C01X00T47")
        assert "Step 2 of 3" in page.text
        progress = poll(client, hitl)
        assert progress["status"] == "in_progress"
        assert progress["progress"]["current_step"] == 2
        page = step(page, "x-back", nights="2")
        assert "Step 1 of 3" in page.text
        assert "Ada Lovelace" in page.text
        assert "C01X00T47" not in page.text
        page = step(page, "x-next", **JOURNEY)
        page = step(page, "x-next", nights="2", step_free="false", meals=["fish", "vegan"])
        assert "Step 3 of 3" in page.text
        assert "C01X00T47" not in page.text
        done = step(page, "submit")
        assert "C01X00T47" not in done.text
    data = poll(client, hitl)["result"]["data"]
    assert data["passport"] == "C01X00T47"
    assert data["meals"] == ["fish", "vegan"]
    assert data["nights"] == 2
    assert "railcard" not in data


def test_what_was_typed_is_still_there_on_another_device(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, **REVIEW_TYPES["input"].example())
    with server.client(follow_redirects=True) as phone:
        step(visit(server, phone, hitl), "x-next", **{**JOURNEY, "way": "own"})
    with server.client(follow_redirects=True) as desktop:
        page = visit(server, desktop, hitl)
        assert "Step 2 of 3" in page.text
        assert "Ada Lovelace" in step(page, "x-back").text


def test_nobody_jumps_to_the_end_of_a_form(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, **REVIEW_TYPES["input"].example())
    with server.client(follow_redirects=True) as person:
        page = visit(server, person, hitl)
        for number in ("2", "99", "-1", "x", "9" * 400):
            refused = page.post("respond", {"action": "submit", "step": number})
            assert refused.response.status_code == 400
    assert poll(client, hitl)["status"] == "in_progress"


# Declining and passing on


def test_a_person_may_refuse_to_decide(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        handed_back = page.post("hand-back", {"reason": "Not mine to decide"})
        assert "You handed this question back" in handed_back.text
        assert "Not mine to decide" in handed_back.text
    assert poll(client, hitl)["status"] != "cancelled"


@pytest.mark.parametrize("odd", ["\x0c", "\x00", "\x1b", "\ufffe", "\x85"])
def test_a_remark_pasted_with_characters_that_nobody_sees_is_taken_without_them(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], odd: str
) -> None:
    with server.page(hitl) as page:
        passed = page.post("pass-on", {"pass_on_note": f"Ben{odd} knows better"})
        assert passed.response.status_code == 200
        handed_back = page.post("hand-back", {"reason": f"Page 1{odd}\r\nNot mine 👍🏽 \tto decide"})
        assert handed_back.response.status_code == 200
        assert "You handed this question back" in handed_back.text
    kept = odd if odd.isspace() or odd == "\ufffe" else ""
    assert read_hand_back_reason(server, hitl) == f"Page 1{kept}\nNot mine 👍🏽 \tto decide"


def test_no_remark_is_longer_than_its_box_and_cut_off_unseen(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        boxes = re.findall(
            r'<textarea[^>]* name="(?:hand_back_reason|pass_on_note)"[^>]*maxlength="(\d+)"', page.text
        )
        assert len(boxes) == 2
        longest = "\r\n".join(["x" * 99] * (int(boxes[0]) // 100))
        page.post("hand-back", {"why": "too_little", "reason": longest})
    assert read_hand_back_reason(server, hitl).endswith(longest.replace("\r", ""))


def test_a_colleague_gets_a_link_of_their_own_and_the_log_says_who_passed_it_on(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        passed = page.post("pass-on", {"pass_on_note": "Ben knows better"})
        assert passed.response.status_code == 200
        link = re.search(
            rf"{re.escape(server.url)}/review/{hitl['case_id']}\?token=([\w-]{{43}})", passed.text
        )
        assert link is not None
        assert link[1] != token_of(hitl)
    with server.page({**hitl, "review_url": link[0]}) as colleague:
        assert colleague.response.status_code == 200
        colleague.post("respond", {"action": "confirm"})
    events = server.run(server.parts.desk.store.list_events(hitl["case_id"]))
    names = [event.type for event in events]
    assert names == ["review.created", "review.passed_on", "review.completed"]
    assert b"Ben knows better" in (events[1].data or b"")
    assert link[1].encode() not in b"".join(event.data or b"" for event in events)
    assert events[1].actor != events[2].actor
    assert poll(client, hitl)["status"] == "completed"
    with server.page(hitl) as first:
        assert "Confirmed" in first.text


# Closed cases


@pytest.mark.parametrize(
    ("end", "words"),
    [("completed", "Confirmed"), ("expired", "Nobody answered in time"), ("cancelled", "withdrawn")],
)
def test_a_closed_case_says_what_became_of_it(
    server: RunningServer, client: httpx.Client, end: str, words: str
) -> None:
    hitl = server.open(client, timeout="1m", inline_actions=["confirm"])
    if end == "completed":
        server.press(hitl, "confirm")
    elif end == "cancelled":
        client.post(f"/v1/reviews/{hitl['case_id']}/cancel")
    else:
        server.advance(minutes=2)
    with server.page(hitl) as page:
        assert page.response.status_code == 200
        assert words in page.text
        assert "<form" not in page.text
    assert poll(client, hitl)["status"] == end


def test_a_page_that_was_left_open_too_long_says_that_it_is_too_late(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, timeout="1m")
    with server.page(hitl) as page:
        server.advance(minutes=2)
        for verb in ("respond", "hand-back", "pass-on"):
            late = page.post(verb, {"action": "confirm"})
            assert late.response.status_code == 410
            assert "Someone else" not in late.text
            assert "Traceback" not in late.text
    assert poll(client, hitl)["status"] == "expired"


def test_an_erased_case_is_gone_for_everyone(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, inline_actions=["confirm"])
    server.press(hitl, "confirm")
    server.advance(days=31)
    server.sweep()
    with server.client() as person:
        assert person.get(hitl["review_url"]).status_code == 404
        assert person.get(page_path(hitl)).status_code == 404
    assert client.get(hitl["poll_url"]).status_code == 404


def test_the_link_of_an_erased_case_says_that_it_was_erased(
    server: RunningServer, client: httpx.Client
) -> None:
    hitl = server.open(client, inline_actions=["confirm"])
    with server.page(hitl) as page:
        server.press(hitl, "confirm")
        server.advance(days=31)
        server.sweep()
        with server.client() as person:
            gone = person.get(hitl["review_url"])
            assert (gone.status_code, hitl["prompt"] in gone.text) == (404, False)
            assert "tidied away since" in gone.text
            assert "tidied away since" not in person.get(f"{page_path(hitl)}?token=wrong").text
        assert page.client.get(page_path(hitl)).status_code in (401, 404)


# Hostile forms


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"&&&&",
        b"====",
        b"csrf",
        b"\xff\xfe=\x00",
        "größe=ä".encode(),
        b"a=b&" * 5000,
        b"action=confirm&" * 10,
        b"%00=%00",
        b"csrf=%ff%fe",
        b"x" * (1024 * 1024 + 1),
    ],
    ids=lambda body: repr(body[:20]),
)
def test_a_form_that_is_none_changes_nothing(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], body: bytes
) -> None:
    with server.page(hitl) as page:
        headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        answer = page.client.post(f"{page_path(hitl)}/respond", content=body, headers=headers)
        assert 400 <= answer.status_code < 500
    assert poll(client, hitl)["status"] == "pending"


@pytest.mark.parametrize(
    "fields",
    [
        {"action": ""},
        {"action": "approve"},
        {"action": "x-next"},
        {"action": "<script>alert(1)</script>"},
        {"action": ["cancel", "nothing"]},
        {"action": "confirm", "note": "x" * 10_001},
        {"action": "confirm", "note": "a\x00b"},
        {"action": "confirm", "note": "\x1b[31m"},
    ],
    ids=lambda fields: repr(fields)[:40],
)
def test_an_answer_that_was_not_offered_brings_the_page_back(
    server: RunningServer, client: httpx.Client, hitl: dict[str, Any], fields: dict[str, Any]
) -> None:
    with server.page(hitl) as page:
        answer = page.post("respond", fields)
        assert answer.response.status_code == 400
        assert answer.response.headers["content-type"].startswith("text/html")
        assert "<script>alert" not in answer.text
        assert hitl["prompt"] in unescape(answer.text)
    assert poll(client, hitl)["status"] == "pending"


@pytest.mark.parametrize(
    ("question", "fields", "label"),
    [
        ({}, {"action": "confirm", "note": "a\x1bb"}, "Note"),
        ({"type": "approval"}, {"action": "reject", "feedback": "a\x00b"}, "Feedback"),
        ({"type": "input"}, {"action": "submit", "answer": "a\x1bb"}, "Your answer"),
        (
            {"type": "escalation", "context": {"error": {"message": "Jam"}, "params": {"to": "Ada"}}},
            {"action": "retry", "param.to": "Eve\x1b"},
            "Changed parameters",
        ),
    ],
    ids=lambda case: case.get("type") if isinstance(case, dict) else None,
)
def test_characters_that_no_answer_may_hold_are_told_where_they_stand(
    server: RunningServer, client: httpx.Client, question: dict[str, Any], fields: dict[str, Any], label: str
) -> None:
    with server.page(server.open(client, **question)) as page:
        answer = page.post("respond", fields)
    assert answer.response.status_code == 400
    assert f"<b>{label}</b> Remove the invisible control characters" in answer.text


def test_what_an_agent_wrote_is_text_and_nothing_else(server: RunningServer, client: httpx.Client) -> None:
    evil = '"><script>alert(1)</script>{{7777777*7777777}}</textarea><img src=x onerror=alert(1)>'
    hitl = server.open(
        client,
        type="approval",
        prompt=evil,
        message=evil,
        service=evil,
        agent=evil,
        context={"artifact": {evil: evil}, evil: [evil, {evil: evil}], "link": "javascript:alert(1)"},
    )
    with server.page(hitl) as page:
        assert page.response.status_code == 200
        for dangerous in (
            "<script>alert",
            "<img src=x",
            "{{7777777*7777777}}</textarea><img",
            'href="javascript:',
        ):
            assert dangerous not in page.text
        assert "60493815061729" not in page.text
