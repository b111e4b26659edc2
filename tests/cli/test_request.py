"""`placet request`: any call; where a service needs a person, their decision, and codes to branch on."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from placet.agent import PendingCases
from tests.cli.asking import Desk, stand_in_browser
from tests.cli.strange_service import Reply, StrangeService, json_reply, strange_service
from tests.waiting import eventually

CASE = '{"type": "confirmation", "prompt": "Water the plants?"}'


@pytest.fixture
def service() -> Iterator[StrangeService]:
    with strange_service() as service:
        yield service


def completed_poll(action: str, **more: object) -> dict[str, object]:
    return {"status": "completed", "result": {"action": action, "data": {}, **more}}


# A person decides


@pytest.mark.parametrize(("action", "code"), [("confirm", 0), ("cancel", 10)])
def test_a_call_that_needs_a_person_comes_back_with_the_decision(desk: Desk, action: str, code: int) -> None:
    asking = desk.start("request", "POST", f"{desk.url}/v1/cases", "-d", CASE)
    desk.answer(asking.link(), action)
    result = asking.end(code)
    assert list(result) == [
        *("status", "case_id", "action", "is_affirmative", "data", "verified", "responded_by"),
        *("submission_context", "default_action", "reason", "previous_case_id", "next_case_id"),
    ]
    assert (result["status"], result["action"], result["verified"]) == ("completed", action, True)
    assert result["submission_context"]["mode"] == "browser_submit"


@pytest.mark.parametrize("origin", ["reviews.example", "ftp://reviews.example", "https://", "https://[", ""])
def test_a_trusted_origin_that_is_none_is_refused_before_anything_is_sent(
    service: StrangeService, desk: Desk, origin: str
) -> None:
    service.asks()
    asking = desk.start("request", "POST", f"{service.url}/act", "--trust", origin)
    assert asking.read_stdout(2) == b""
    assert "is not an origin, such as https://" in asking.stderr
    assert service.calls == []


def test_persons_progress_is_printed(desk: Desk) -> None:
    asking = desk.start("request", "POST", f"{desk.url}/v1/cases", "-d", CASE, "--interval", "0.2")
    link = asking.link()
    desk.open_page(link)
    asking.wait_for("A person has opened it (23:59:")
    desk.answer(link, "confirm")
    asking.end()


def test_the_link_is_told_again_when_it_is_time_to_remind(service: StrangeService, desk: Desk) -> None:
    service.replies["/act"] = lambda call: reply_with_reminder(service)
    service.answer_polls_with(status="pending")
    asking = desk.start("request", "POST", f"{service.url}/act", "--interval", "0.2")
    asking.wait_for("Reminder: 127.0.0.1 asks you to confirm:\n  Go?\n")
    assert asking.stderr.count(f"{service.url}/review/1\n") == 2
    service.answer_polls_with(**completed_poll("confirm"))
    asking.end()


def reply_with_reminder(service: StrangeService) -> Reply:
    soon = datetime.now(UTC) + timedelta(seconds=4)  # once the command has told the person, however slowly
    service.asks("/again", reminder_at=soon.isoformat())
    reply = service.replies["/again"]
    assert isinstance(reply, Reply)
    return reply


def test_the_body_may_come_from_a_file_or_from_standard_input(service: StrangeService, desk: Desk) -> None:
    service.replies["/act"] = json_reply({"done": True})
    (desk.folder / "body.json").write_text(CASE)
    desk.start("request", "POST", f"{service.url}/act", "-d", "@body.json").read_stdout()
    desk.start("request", "put", f"{service.url}/act", "-d", "-", stdin=CASE.encode()).read_stdout()
    assert [(call.method, call.body) for call in service.calls] == [
        ("POST", CASE.encode()),
        ("PUT", CASE.encode()),
    ]
    assert {call.headers["content-type"] for call in service.calls} == {"application/json"}


def test_headers_are_sent_with_the_call_and_credentials_with_every_poll(
    service: StrangeService, desk: Desk
) -> None:
    service.asks()
    service.answer_polls_with(**completed_poll("confirm"))
    (desk.folder / "secret").write_text("Authorization: Bearer s3cret\n\nX-Api-Key: k1\n")
    asking = desk.start("request", "POST", f"{service.url}/act", "-H", "@secret", "-H", "X-Trace: 7")
    result = asking.end()
    assert (result["action"], result["verified"]) == ("confirm", None)
    act, poll = service.calls
    assert (act.headers["x-trace"], "x-trace" in poll.headers) == ("7", False)
    for call in (act, poll):
        assert (call.headers["authorization"], call.headers["x-api-key"]) == ("Bearer s3cret", "k1")


def test_placet_key_is_sent_only_to_its_server(service: StrangeService, desk: Desk) -> None:
    service.replies["/act"] = Reply()
    desk.start("request", "GET", f"{service.url}/act").read_stdout()
    assert "authorization" not in service.calls[0].headers


def test_the_link_opens_in_the_browser_and_standard_output_stays_clean(
    service: StrangeService, desk: Desk
) -> None:
    browser, opened = stand_in_browser(desk.folder)
    service.asks()
    service.answer_polls_with(status="pending")
    asking = desk.start(
        *("request", "POST", f"{service.url}/act", "--via", "browser", "--interval", "0.1"),
        env={"BROWSER": browser},
    )
    eventually(lambda: opened.exists() and opened.read_text() == f"{service.url}/review/1")
    service.answer_polls_with(**completed_poll("confirm"))
    assert asking.end()["action"] == "confirm"


def test_without_a_browser_the_link_is_still_told(service: StrangeService, desk: Desk) -> None:
    service.asks()
    service.answer_polls_with(**completed_poll("confirm"))
    nothing = {"BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    asking = desk.start("request", "POST", f"{service.url}/act", "--via", "browser", env=nothing)
    asking.end()
    assert f"{service.url}/review/1\n" in asking.stderr
    assert "No browser was found" in asking.stderr


def test_messenger_may_be_set_in_the_environment(service: StrangeService, desk: Desk) -> None:
    service.asks()
    service.answer_polls_with(**completed_poll("confirm"))
    asking = desk.start("request", "POST", f"{service.url}/act", env={"PLACET_VIA": "qr print"})
    asking.end()
    assert "▀" in asking.stderr


@pytest.mark.parametrize("via", ["telegram", "slack", "discord", "whatsapp", "teams", "email"])
def test_a_messenger_that_is_not_set_up_says_so_before_anything_is_sent(
    service: StrangeService, desk: Desk, via: str
) -> None:
    service.asks()
    asking = desk.start("request", "POST", f"{service.url}/act", "--via", via)
    assert asking.read_stdout(1) == b""
    assert asking.stderr.startswith("placet: ")
    assert f"PLACET_{via.upper()}_" in asking.stderr
    assert service.calls == []


# Nobody is needed


def test_response_without_a_review_is_printed_unchanged(service: StrangeService, desk: Desk) -> None:
    body = bytes(range(256)) * 3
    service.replies["/file"] = Reply(body=body, headers={"Content-Type": "application/octet-stream"})
    asking = desk.start("request", "GET", f"{service.url}/file")
    assert asking.read_stdout() == body
    assert asking.stderr == ""


def test_a_large_answer_is_printed_whole(service: StrangeService, desk: Desk) -> None:
    body = b"0123456789abcdef" * 1024 * 1024
    service.replies["/file"] = Reply(body=body)
    assert desk.start("request", "GET", f"{service.url}/file").read_stdout() == body


@pytest.mark.parametrize("body", [b"Accepted", b'{"job": 7}', b"\xff\xfe", b""])
def test_plain_202_is_printed_unchanged(service: StrangeService, desk: Desk, body: bytes) -> None:
    service.replies["/jobs"] = Reply(status=202, body=body)
    assert desk.start("request", "POST", f"{service.url}/jobs").read_stdout() == body


def test_json_output_wraps_the_response(service: StrangeService, desk: Desk) -> None:
    service.replies["/act"] = json_reply({"done": True}, status=201)
    service.replies["/text"] = Reply(body=b"gr\xfc\xdfe")
    shown = desk.start("request", "GET", f"{service.url}/act", "--json").end()
    assert shown == {"status": "answered", "http_status": 201, "body": {"done": True}}
    assert desk.start("request", "GET", f"{service.url}/text", "--json").end()["body"] == "gr��e"


# Something is wrong


@pytest.mark.parametrize("status", [301, 400, 401, 404, 409, 429, 500, 503])
def test_a_refusal_is_printed_as_it_is_and_is_an_error(
    service: StrangeService, desk: Desk, status: int
) -> None:
    service.replies["/act"] = Reply(status=status, body=b'{"error": "no"}', headers={"Location": "/there"})
    asking = desk.start("request", "GET", f"{service.url}/act")
    assert asking.read_stdout(1) == b'{"error": "no"}'
    assert f"The service answered HTTP {status}" in asking.stderr
    assert len(service.calls) == 1


def test_a_refusal_is_wrapped_in_json_too(service: StrangeService, desk: Desk) -> None:
    service.replies["/act"] = json_reply({"error": "no"}, status=409)
    shown = desk.start("request", "GET", f"{service.url}/act", "--json").end(1)
    assert shown == {"status": "error", "http_status": 409, "body": {"error": "no"}}


def test_a_service_that_is_down_is_an_error(desk: Desk) -> None:
    asking = desk.start("request", "GET", "http://127.0.0.1:1/act", "--json")
    assert asking.end(1)["error"] == "unavailable"
    assert "http://127.0.0.1:1 cannot be reached" in asking.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("GET",), "URL"),
        (("GET", "example"), "https://…"),
        (("GET", "file:///etc/hosts"), "https://…"),
        (("G T", "http://127.0.0.1:1"), "not an HTTP method"),
        (("POST", "http://127.0.0.1:1", "-d", '{"open'), "not JSON"),
        (("POST", "http://127.0.0.1:1", "-d", b'"\xff"'), "not JSON"),
        (("POST", "http://127.0.0.1:1", "-d", "@nowhere"), "nowhere cannot be read"),
        (("POST", "http://127.0.0.1:1", "-H", "no colon"), "Name: value"),
        (("POST", "http://127.0.0.1:1", "-H", "X-Y: a\r\nEvil: b"), "Name: value"),
        (("POST", "http://127.0.0.1:1", "--via", "pigeon"), "pigeon"),
        (("POST", "http://127.0.0.1:1", "--interval", "0"), "--interval"),
        (("POST", "http://127.0.0.1:1", "--max-wait", "1 fortnight"), "--max-wait"),
    ],
)
def test_invalid_arguments_are_explained_and_nothing_is_sent(
    desk: Desk, words: tuple[str | bytes, ...], complaint: str
) -> None:
    asking = desk.start("request", *words)
    assert asking.read_stdout(2) == b""
    assert complaint in asking.stderr


def test_body_that_is_not_json_is_sent_with_its_content_type(service: StrangeService, desk: Desk) -> None:
    service.replies["/act"] = Reply()
    desk.start(
        "request", "POST", f"{service.url}/act", "-d", b"\xff\xfe", "-H", "content-type: image/x"
    ).read_stdout()
    assert (service.calls[0].body, service.calls[0].headers["content-type"]) == (b"\xff\xfe", "image/x")


def test_a_body_that_is_too_large_is_refused_by_the_server_and_told(desk: Desk) -> None:
    (desk.folder / "huge.json").write_text(msgspec.json.encode({"type": "x" * 4_000_000}).decode())
    asking = desk.start("request", "POST", f"{desk.url}/v1/cases", "-d", "@huge.json")
    assert b"invalid_request" in asking.read_stdout(1)
    assert "HTTP 413" in asking.stderr


def test_poll_url_at_another_origin_is_not_followed(service: StrangeService, desk: Desk) -> None:
    with strange_service() as other:
        service.asks(poll_url=f"{other.url}/poll")
        asking = desk.start("request", "POST", f"{service.url}/act", "-H", "Authorization: Bearer s3cret")
        assert asking.read_stdout(1) == b""
        assert "is not trusted" in asking.stderr
        assert (other.calls, desk.list_pending()) == ([], [])


def test_poll_url_at_a_trusted_origin_is_followed(service: StrangeService, desk: Desk) -> None:
    with strange_service() as other:
        service.asks(poll_url=f"{other.url}/poll")
        other.answer_polls_with(**completed_poll("cancel"))
        desk.start("request", "POST", f"{service.url}/act", "--trust", other.url).end(10)
        assert [call.path for call in other.calls] == ["/poll"]


def test_timeout_prints_the_link_and_the_case_stays_open(service: StrangeService, desk: Desk) -> None:
    service.asks()
    service.answer_polls_with(status="opened")
    asking = desk.start("request", "POST", f"{service.url}/act", "--interval", "0.1", "--max-wait", "1")
    result = asking.end(13)
    assert (result["status"], result["review_url"]) == ("opened", f"{service.url}/review/1")
    assert "placet pending resume case-1" in asking.stderr
    assert [one.case.case_id for one in desk.list_pending()] == ["case-1"]


def test_result_with_an_invalid_signature_is_not_a_decision(service: StrangeService, desk: Desk) -> None:
    service.asks()
    signature = {"algorithm": "ES256", "value": "e30..AAAA", "signed_at": "2026-11-15T12:00:00Z"}
    service.answer_polls_with(
        **completed_poll("confirm", signature={**signature, "signer": f"{service.url}/keys"})
    )
    service.replies["/keys"] = json_reply({"keys": []})
    asking = desk.start("request", "POST", f"{service.url}/act")
    result = asking.end(1)
    assert (result["verified"], result["is_affirmative"]) == (False, False)
    assert "do not act on it" in asking.stderr


def test_stripped_signature_fails_the_command_if_a_signature_is_required(
    service: StrangeService, desk: Desk
) -> None:
    service.asks()
    service.answer_polls_with(**completed_poll("confirm"))
    asking = desk.start("request", "POST", f"{service.url}/act", "--require-signature", "--json")
    assert asking.end(1)["error"] == "signature_required"
    assert "has no signature" in asking.stderr
    assert desk.list_pending() == []


def test_unreachable_keys_fail_the_command_if_a_signature_is_required_and_the_decision_can_be_read_again(
    service: StrangeService, desk: Desk
) -> None:
    service.asks()
    signature = {"algorithm": "ES256", "value": "e30..AAAA", "signed_at": "2026-11-15T12:00:00Z"}
    service.answer_polls_with(
        **completed_poll("confirm", signature={**signature, "signer": f"{service.url}/keys"})
    )
    asking = desk.start("request", "POST", f"{service.url}/act", "--require-signature", "--json")
    assert asking.end(1)["error"] == "keys_unavailable"
    assert "Read the decision again with:\n  placet pending resume case-1" in asking.stderr
    assert "still open" not in asking.stderr


@pytest.mark.parametrize(
    "command", [("pending", "resume", "case-1"), ("pending", "resume"), ("wait", "/poll")]
)
def test_a_required_signature_is_required_of_later_commands_too(
    service: StrangeService, desk: Desk, command: tuple[str, ...]
) -> None:
    service.asks()
    service.answer_polls_with(status="pending")
    desk.start("request", "POST", f"{service.url}/act", "--require-signature", "--max-wait", "0").end(13)
    service.answer_polls_with(**completed_poll("confirm"))
    later = desk.start(*(f"{service.url}{each}" if each == "/poll" else each for each in command), "--json")
    assert later.end(1)["error"] == "signature_required"


def test_valid_signature_satisfies_the_requirement(desk: Desk) -> None:
    asking = desk.start("request", "POST", f"{desk.url}/v1/cases", "-d", CASE, "--require-signature")
    desk.answer(asking.link(), "confirm")
    assert asking.end()["verified"] is True


def test_a_case_that_vanishes_is_an_error(service: StrangeService, desk: Desk) -> None:
    service.asks()
    asking = desk.start("request", "POST", f"{service.url}/act", "--json")
    assert asking.end(1)["status"] == "error"
    assert desk.list_pending() == []


def test_temporary_errors_are_retried(service: StrangeService, desk: Desk) -> None:
    service.asks()
    service.replies["/poll"] = Reply(status=503, headers={"Retry-After": "1"})
    asking = desk.start("request", "POST", f"{service.url}/act")
    asking.wait_for("The service answered HTTP 503 (")
    service.answer_polls_with(**completed_poll("confirm"))
    asking.end()


def test_service_text_cannot_control_the_terminal(service: StrangeService, desk: Desk) -> None:
    service.asks(prompt="Delete \x1b[2J\x1b]0;title\x07 all\u202e\r\nplacet: Approved", type="\x1b[31mred")
    service.answer_polls_with(status="cancelled", reason="\x1b[2K\u009bBye\u202e")
    asking = desk.start("request", "POST", f"{service.url}/act")
    printed = asking.read_stdout(12)
    assert b"\x1b" not in printed
    assert "\u009b" not in printed.decode()
    assert msgspec.json.decode(printed)["reason"] == "\x1b[2K\u009bBye\u202e"
    assert not {"\x1b", "\x07", "\r", "\u202e", "\u009b"} & set(asking.stderr)
    assert "⟦U+001B⟧" in asking.stderr


def test_very_long_prompt_is_truncated_on_the_screen(desk: Desk, service: StrangeService) -> None:
    service.asks(prompt="Really? " * 100_000)
    service.answer_polls_with(status="completed", result={"action": "confirm"})
    asking = desk.start("request", "POST", f"{service.url}/act")
    asking.end()
    assert "Really?…" in asking.stderr
    assert len(asking.stderr) < 2_000


def test_without_writable_state_the_person_is_still_asked(service: StrangeService, desk: Desk) -> None:
    (desk.folder / "taken").write_text("")
    service.asks()
    service.answer_polls_with(**completed_poll("confirm"))
    asking = desk.start(
        "request", "POST", f"{service.url}/act", env={"XDG_STATE_HOME": str(desk.folder / "taken")}
    )
    assert asking.end()["action"] == "confirm"
    assert "cannot be resumed" in asking.stderr


def test_locked_state_file_does_not_prevent_asking(desk: Desk, service: StrangeService) -> None:
    service.asks()
    service.answer_polls_with(status="completed", result={"action": "confirm"})
    path = desk.state / "placet" / "agent.db"
    path.parent.mkdir(parents=True)
    PendingCases(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        asking = desk.start("request", "POST", f"{service.url}/act")
        asking.wait_for("/review/1")
        assert asking.end()["action"] == "confirm"
    assert "database is locked" in asking.stderr
    assert "the wait cannot be resumed" in asking.stderr


def test_without_writable_state_no_resume_hint_is_printed(service: StrangeService, desk: Desk) -> None:
    (desk.folder / "taken").write_text("")
    service.asks()
    nowhere = {"XDG_STATE_HOME": str(desk.folder / "taken")}
    asking = desk.start("request", "POST", f"{service.url}/act", "--max-wait", "0", env=nowhere)
    asking.end(13)
    assert "pending resume" not in asking.stderr
