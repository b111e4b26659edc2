"""What a whole run writes to its log: JSON lines, and never a token, a key, a secret or what people typed."""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from placet.reviews.registry import REVIEW_TYPES
from placet.server.logs import STRUCK, JsonFormatter, TextFormatter, redact
from tests.cli.process import ServerProcess, placet, serving
from tests.server.receiver import CallbackReceiver, receiving
from tests.server.running import PRESSED, ReviewPage
from tests.waiting import eventually

PASSPORT = "C01X00T47"
WRONG_KEY = "placet_" + "k" * 43
TALKATIVE = {
    "PLACET_LOG_LEVEL": "debug",
    "PLACET_LOG_REQUESTS": "true",
    "PLACET_ALLOW_LOOPBACK": "true",
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[CallbackReceiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, receiver: CallbackReceiver) -> tuple[str, list[str]]:
    """The log of a server that lived through everything, and the secrets that passed through it."""
    folder = tmp_path_factory.mktemp("logs")
    receiver.script["/hook"] = [500]
    with serving(folder, "--log-style", "json", env=TALKATIVE) as server:
        server.url()
        secrets = use_server(server, folder, receiver)
        assert server.stop() == 0
    return server.stderr, secrets


def use_server(server: ServerProcess, folder: Path, receiver: CallbackReceiver) -> list[str]:
    """Ask, fill in, pass on, press, go wrong; returns all that must not be told."""
    key = server.admin_key
    second = placet(folder, "key", "create", "other", "--db", "cases.db").stdout.strip()
    callback_url = f"{receiver.url}/hook"
    with server.client(key) as owner, server.client(follow_redirects=True) as person:
        form = REVIEW_TYPES["input"].example()
        asked: dict[str, Any] = owner.post("/v1/cases", json={**form, "callback_url": callback_url}).json()[
            "hitl"
        ]
        page = ReviewPage(person, person.get(asked["review_url"]))
        csrf = page.hidden_fields()["csrf"]
        page.post("respond", {"action": "x-next", "step": "0", "field.passport": PASSPORT})
        passed_on = page.post("pass-on", {"pass_on_note": "Ben"}).text
        link = re.search(r"token=([\w-]{43})", passed_on)
        assert link is not None
        person.get(f"{asked['review_url']}x")  # cut, mistyped, mangled on the way
        session = person.cookies.get(f"placet_case.{asked['case_id']}")
        assert session is not None
        inline: dict[str, Any] = owner.post(
            "/v1/cases",
            json={
                "type": "confirmation",
                "prompt": "Go?",
                "inline_actions": ["confirm"],
                "callback_url": callback_url,
            },
            headers={"Idempotency-Key": "an agent's own secret key"},
        ).json()["hitl"]
        token = {"Authorization": f"Bearer {inline['submit_token']}"}
        owner.post(inline["submit_url"], json={"action": "confirm", **PRESSED}, headers=token)
        owner.get(inline["events_url"])
        owner.get(inline["poll_url"], headers={"Authorization": f"Bearer {WRONG_KEY}"})
        owner.post("/v1/cases", content=b"{" * 100)
        owner.post("/v1/cases", json={"type": "input", "prompt": "x", "context": {"form": {"fields": 7}}})
        secret = owner.get("/v1/callbacks").json()["callbacks"][0]["secrets"][0]
        eventually(lambda: receiver.at("/hook"))
    tokens = [hitl["review_url"].partition("token=")[2] for hitl in (asked, inline)]
    return [
        *(key, second, WRONG_KEY, secret, csrf, session, link[1], PASSPORT, inline["submit_token"]),
        *("an agent's own secret key", *tokens),
    ]


def test_tokens_and_keys_are_never_logged(run: tuple[str, list[str]]) -> None:
    log, secrets = run
    assert len(secrets) == 12
    assert all(len(secret) >= 9 for secret in secrets)
    assert [secret for secret in secrets if secret in log] == []


def test_every_line_is_json_with_a_moment_a_level_and_a_message(run: tuple[str, list[str]]) -> None:
    lines = [msgspec.json.decode(line) for line in run[0].splitlines()]
    assert lines
    assert all({"at", "level", "logger", "message"} <= line.keys() for line in lines)


def test_requests_are_logged_by_path_without_their_query(run: tuple[str, list[str]]) -> None:
    lines = [msgspec.json.decode(line) for line in run[0].splitlines()]
    requests = [line for line in lines if line["logger"] == "placet.access"]
    assert {"route", "status", "ms"} <= requests[0].keys()
    assert any(line["message"].startswith("GET /review/review_") for line in requests)
    assert not any("?" in line["message"] for line in requests)
    assert {line["status"] for line in requests} >= {200, 202, 303, 400, 401}


def test_a_quiet_server_logs_no_requests(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        with server.client() as client:
            client.get("/healthz")
            client.get("/v1/reviews/review_x/status?token=abc")
        assert server.stop() == 0
        assert "healthz" not in server.stderr
        assert "review_x" not in server.stderr


# The line itself


@pytest.mark.parametrize(
    "text",
    [
        "GET /review/review_a?token=SECRET HTTP/1.1",
        "token=SECRET&x=1",
        "Authorization: Bearer SECRET",
        "authorization: bearer SECRET",
        "Cookie: placet_case.review_a=SECRET; other=1",
        "Cookie: __Host-placet_inbox_0123abcd=SECRET; other=1",
        "csrf=SECRET",
        "{'Authorization': 'Bearer SECRET'}",
        "whsec_SECRET",
        "placet_SECRET",
        "a bare SECRET in the middle",
    ],
)
def test_text_that_looks_like_a_secret_is_redacted(text: str) -> None:
    secret = "aB3-_xY9" * 5 + "aB3"  # 43 characters, as our tokens have
    redacted = redact(text.replace("SECRET", secret))
    assert secret not in redacted
    assert STRUCK in redacted


@pytest.mark.parametrize(
    "text", ["review_01a1de72b0e81de72b0e81de72b0e81de7", "f" * 64, "msg_" + "0" * 32, "a token was refused"]
)
def test_ids_and_digests_stay_readable(text: str) -> None:
    assert redact(text) == text


def record(message: str, *arguments: object, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "placet.test", "levelname": "INFO", "msg": message, "args": arguments}
    )
    vars(made).update(extra)
    return made


def test_a_line_stays_one_line_whatever_was_said() -> None:
    line = JsonFormatter().format(record("a\nb %s", "c\r\n{}"))
    assert "\n" not in line
    assert msgspec.json.decode(line)["message"] == "a\nb c\r\n{}"


def test_what_a_caller_sent_cannot_forge_a_line_or_paint_a_terminal() -> None:
    line = TextFormatter().format(record("GET %s", "/é\n12:00  info  all is well\x1b[2J\x9b\u202e"))
    assert line.endswith("GET /é\\n12:00  info  all is well\\x1b[2J\\x9b\\u202e")


def test_values_that_json_cannot_encode_are_logged_as_text() -> None:
    headers = {"Authorization": "Bearer abcdefgh"}
    line = JsonFormatter().format(record("said", thing=Path("x"), headers=headers, half="\ud800", count=7))
    decoded = msgspec.json.decode(line)
    assert (decoded["thing"], decoded["half"], decoded["count"]) == ("x", "?", 7)
    assert "abcdefgh" not in decoded["headers"]


def test_an_error_is_written_with_its_place_and_without_its_secrets() -> None:
    try:
        raise ValueError("no such token=abcdefgh")
    except ValueError as error:
        made = record("failed", exc_info=(type(error), error, error.__traceback__))
    for formatter in (JsonFormatter(), TextFormatter()):
        line = formatter.format(made)
        assert "test_logs.py" in line
        assert "abcdefgh" not in line
