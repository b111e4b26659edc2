"""The cases API against what is wrong, huge, nested or hostile: a flat error, and nothing written."""

import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest

from tests.server.database_file import read_rows
from tests.server.running import RunningServer
from tests.waiting import PATIENCE_S

OK = {"type": "confirmation", "prompt": "Water the plants?"}
MIB = 1024 * 1024


@pytest.fixture
def assert_nothing_written(server: RunningServer) -> Iterator[None]:
    """Whatever the test sends leaves no trace."""
    before = read_rows(server.parts.settings.db)
    yield
    assert read_rows(server.parts.settings.db) == before


def refusal(response: httpx.Response, status: int = 400, error: str = "invalid_request") -> str:
    """The message of a flat error with this status and code."""
    assert (response.status_code, response.json().get("error")) == (status, error), response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    message = response.json()["message"]
    assert isinstance(message, str)
    assert message
    assert "Traceback" not in response.text
    return message


def test_a_case_is_opened_with_all_that_an_agent_needs(server: RunningServer, client: httpx.Client) -> None:
    response = client.post("/v1/cases", json=OK)
    assert response.status_code == 202
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["retry-after"] == "2"
    body = response.json()
    assert body["status"] == "human_input_required"
    assert body["message"] == OK["prompt"]
    assert {"case_id", "review_url", "poll_url", "events_url", "expires_at"} <= body["hitl"].keys()


# Bodies


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"   ",
        b"{",
        b"nonsense",
        b'{"type": "confirmation", "prompt": "Go?"',
        b'{"type": "confirmation", "prompt": "Go?"}}',
        b"{'type': 'confirmation'}",
        b'{"type": NaN}',
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf{}",
        b'{"prompt": "\xc3\x28"}',
        b'{"type": "confirmation", "prompt": "\x00"}',
        b'{"context":' * 5_000,
        b'{"type": "confirmation", "prompt": "\\ud800"}',
    ],
    ids=lambda body: repr(body[:40]),
)
def test_body_that_is_not_json_is_refused(
    client: httpx.Client, assert_nothing_written: None, body: bytes
) -> None:
    refusal(client.post("/v1/cases", content=body), error="invalid_json")


@pytest.mark.parametrize(
    "body", [b"null", b"[]", b"7", b'"text"', b"true", b"[{}]", b"[" * 100_000], ids=lambda body: body[:9]
)
def test_json_that_is_no_object_is_refused(
    client: httpx.Client, assert_nothing_written: None, body: bytes
) -> None:
    assert "object" in refusal(client.post("/v1/cases", content=body))


def test_a_body_over_the_limit_is_refused_by_its_declared_length(
    client: httpx.Client, assert_nothing_written: None
) -> None:
    body = msgspec.json.encode({**OK, "context": {"text": "x" * MIB}})
    message = refusal(client.post("/v1/cases", content=body), 413)
    assert str(MIB) in message
    assert client.post("/v1/cases", json=OK | {"type": "nothing"}).status_code == 400


def test_a_body_over_the_limit_is_refused_when_it_comes_in_chunks(
    client: httpx.Client, assert_nothing_written: None
) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"type": "confirmation", "prompt": "Go?", "context": {"text": "'
        for _ in range(40):
            yield b"x" * 65_536

    refusal(client.post("/v1/cases", content=chunks()), 413)


def test_a_body_that_comes_in_small_chunks_is_taken(client: httpx.Client) -> None:
    body = msgspec.json.encode(OK)
    chunks = (body[number : number + 1] for number in range(len(body)))
    assert client.post("/v1/cases", content=chunks).status_code == 202


def test_a_body_of_exactly_the_limit_is_read(client: httpx.Client, assert_nothing_written: None) -> None:
    body = msgspec.json.encode({**OK, "message": ""})
    padded = body.replace(b'"message":""', b'"message":"' + b"x" * (MIB - len(body)) + b'"')
    assert len(padded) == MIB
    assert "2000" in refusal(client.post("/v1/cases", content=padded))


# Fields

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": None}, "type"),
    ({"type": 7}, "type"),
    ({"type": "poll"}, "type"),
    ({"type": "x-"}, "type"),
    ({"type": "X-Compare"}, "type"),
    ({"type": "x-" + "a" * 200}, "type"),
    ({"type": "approval "}, "type"),
    ({"prompt": None}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": " \t\n"}, "prompt"),
    ({"prompt": "x" * 501}, "500"),
    ({"prompt": ["Go?"]}, "prompt"),
    ({"prompt": "a\x00b"}, "prompt"),
    ({"message": "x" * 2001}, "message"),
    ({"message": 1}, "message"),
    ({"context": "text"}, "context"),
    ({"context": []}, "context"),
    ({"context": {"text": "x" * 300_000}}, "context"),
    ({"context": {"text": "a\x00b"}}, ""),
    ({"timeout": ""}, ""),
    ({"timeout": "soon"}, ""),
    ({"timeout": "0s"}, ""),
    ({"timeout": "-1h"}, ""),
    ({"timeout": "24"}, ""),
    ({"timeout": 24}, "timeout"),
    ({"timeout": "1h1h"}, ""),
    ({"timeout": "P"}, ""),
    ({"timeout": "PT"}, ""),
    ({"timeout": "P1Y"}, ""),
    ({"timeout": "1e3h"}, ""),
    ({"timeout": "٢٤h"}, ""),
    ({"timeout": "8d"}, "7d"),
    ({"timeout": "P7DT1S"}, "7d"),
    ({"timeout": "9" * 45 + "h"}, ""),
    ({"default_action": "explode"}, "default_action"),
    ({"default_action": "approve"}, "approve"),
    ({"default_action": "approve", "allow_default_approve": True}, "approve"),
    ({"default_action": "confirm"}, "default_action"),
    ({"reminder_at": "tomorrow"}, "reminder_at"),
    ({"reminder_at": "2026-01-01T07:00:00"}, "reminder_at"),
    ({"reminder_at": "2020-01-01T00:00:00Z"}, "reminder_at"),
    ({"reminder_at": "2036-01-01T00:00:00Z"}, "reminder_at"),
    ({"reminder_at": ["2026-01-01T07:00:00Z"] * 21}, "reminder_at"),
    ({"reminder_at": 7}, "reminder_at"),
    ({"inline_actions": "confirm"}, "inline_actions"),
    ({"inline_actions": ["approve"]}, "approve"),
    ({"inline_actions": ["CONFIRM"]}, "inline_actions"),
    ({"inline_actions": [None]}, "inline_actions"),
    ({"inline_actions": ["confirm"] * 21}, "inline_actions"),
    ({"actions": ["confirm"]}, "actions"),
    ({"type": "x-compare"}, "actions"),
    ({"type": "x-compare", "actions": []}, "actions"),
    ({"type": "x-compare", "actions": ["Keep it"]}, "actions"),
    ({"previous_case_id": "review_nothing"}, "previous_case_id"),
    ({"previous_case_id": "../../etc"}, "previous_case_id"),
    ({"previous_case_id": 7}, "previous_case_id"),
    ({"surface": "a2ui"}, "surface"),
    ({"surface": {"format": ""}}, "surface"),
    ({"surface": {"format": "a2ui", "payload": 1}}, "surface"),
    ({"verification_policy": {}}, "verification_policy"),
    ({"verification_policy": {"mode": "always"}}, "verification_policy"),
    ({"spec_version": ""}, ""),
    ({"spec_version": "1.0"}, "0.9"),
    ({"spec_version": "0.4"}, "0.9"),
    ({"spec_version": "0.9.0"}, "0.9"),
    ({"spec_version": 0.9}, "spec_version"),
    ({"spec_version": "0.5", "inline_actions": ["confirm"]}, "inline_actions"),
    ({"service": ""}, "service"),
    ({"service": "x" * 201}, "service"),
    ({"agent": {}}, "agent"),
    ({"allow_default_approve": "yes"}, "allow_default_approve"),
    ({"surprise": 1}, "surprise"),
    ({"case_id": "review_mine"}, "case_id"),
    ({"type": "selection", "context": {"options": []}}, "options"),
    ({"type": "selection", "context": {"options": [{"title": "no id"}]}}, "options"),
    ({"type": "selection", "context": {"options": [{"id": "a"}, {"id": "a"}]}}, "repeats"),
    ({"context": {"items": [{"title": "no id"}]}}, "items"),
]


@pytest.mark.parametrize(("change", "named"), WRONG, ids=lambda value: repr(value)[:50])
def test_invalid_fields_are_refused_with_a_hint(
    client: httpx.Client, assert_nothing_written: None, change: dict[str, Any], named: str
) -> None:
    message = refusal(client.post("/v1/cases", content=msgspec.json.encode({**OK, **change})))
    assert named in message
    assert message.lstrip("`").startswith((*change, named))


@pytest.mark.parametrize("missing", ["type", "prompt"])
def test_missing_fields_are_named(client: httpx.Client, assert_nothing_written: None, missing: str) -> None:
    draft = {name: value for name, value in OK.items() if name != missing}
    assert missing in refusal(client.post("/v1/cases", json=draft))


@pytest.mark.parametrize(
    "form",
    [
        {},
        [],
        {"fields": []},
        {"fields": "many"},
        {"fields": [{"key": "a", "type": "text"}]},
        {"fields": [{"key": "a", "label": "A", "type": "colour"}]},
        {"fields": [{"key": "a", "label": "A", "type": "text"}] * 2},
        {"fields": [{"key": "a", "label": "A", "type": "text", "validation": {"pattern": "("}}]},
        {"fields": [{"key": "a", "label": "A", "type": "select"}]},
        {"fields": [{"key": "a", "label": "A", "type": "text"}], "steps": []},
        {"steps": [{"title": "One"}]},
    ],
    ids=lambda form: repr(form)[:60],
)
def test_a_form_that_cannot_be_filled_in_is_refused(
    client: httpx.Client, assert_nothing_written: None, form: object
) -> None:
    draft = {"type": "input", "prompt": "Who?", "context": {"form": form}}
    refusal(client.post("/v1/cases", json=draft), error="invalid_form")


def test_a_context_that_is_nested_too_deeply_is_refused(
    client: httpx.Client, assert_nothing_written: None
) -> None:
    context: dict[str, Any] = {}
    for _ in range(33):
        context = {"in": context}
    assert "32" in refusal(client.post("/v1/cases", json={**OK, "context": context}))
    deep = b'{"type":"confirmation","prompt":"Go?","context":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}"
    refusal(client.post("/v1/cases", content=deep))


def test_a_context_just_within_the_limits_is_kept(client: httpx.Client) -> None:
    context: dict[str, Any] = {"text": "x" * 250_000}
    for _ in range(30):
        context = {"in": context}
    assert client.post("/v1/cases", json={**OK, "context": context}).status_code == 202


def test_a_number_that_no_reader_could_keep_is_refused(
    client: httpx.Client, assert_nothing_written: None
) -> None:
    for number in (b"1e999", b"-1e999"):
        body = b'{"type": "confirmation", "prompt": "Go?", "context": {"n": ' + number + b"}}"
        refusal(client.post("/v1/cases", content=body))


def test_of_a_key_given_twice_the_last_counts(client: httpx.Client) -> None:
    body = b'{"type": "approval", "type": "confirmation", "prompt": "A", "prompt": "B"}'
    assert client.post("/v1/cases", content=body).json()["hitl"]["prompt"] == "B"


def test_a_prompt_of_500_characters_counts_characters_and_not_bytes(client: httpx.Client) -> None:
    assert client.post("/v1/cases", json={**OK, "prompt": "🌱" * 500}).status_code == 202


@pytest.mark.parametrize(
    "url",
    [
        "https://10.0.0.1/hook",
        "https://192.168.1.1/hook",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00::1]/hook",
        "https://[::ffff:10.0.0.1]/hook",
        "https://0.0.0.0/hook",
        "https://2130706434.example.internal/hook",
        "https://user:secret@agent.example/hook",
        "https://agent.example/hook#fragment",
        "http://agent.example/hook",
        "ftp://agent.example/hook",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "//agent.example/hook",
        "/hook",
        "",
        "https://",
        "https:///hook",
        "https://agent.example:99999/hook",
        "https://agent.example\\@10.0.0.1/hook",
        "https://metadata.goog/",
        "https://printer.local/hook",
        "https://agent.example/" + "x" * 2100,
    ],
    ids=lambda url: url[:50] or "empty",
)
def test_a_callback_address_that_the_guard_refuses_is_refused_at_once(
    client: httpx.Client, assert_nothing_written: None, url: str
) -> None:
    refusal(client.post("/v1/cases", json={**OK, "callback_url": url}))
    refusal(client.post("/v1/callbacks", json={"url": url}))


# Idempotency


@pytest.mark.parametrize("key", [b"", b"x" * 256, b"a\tb", b"\x80"], ids=repr)
def test_invalid_idempotency_key_is_refused(
    client: httpx.Client, assert_nothing_written: None, key: bytes
) -> None:
    response = client.post("/v1/cases", json=OK, headers=[(b"Idempotency-Key", key)])
    assert "Idempotency-Key" in refusal(response)


def test_the_same_key_again_gets_the_first_answer_and_opens_nothing(
    server: RunningServer, client: httpx.Client
) -> None:
    key = {"Idempotency-Key": "order 7"}
    first = client.post("/v1/cases", json=OK, headers=key)
    before = read_rows(server.parts.settings.db)
    reordered = b' {"prompt": "Water the plants?", "type":"confirmation"}'
    again = client.post("/v1/cases", content=reordered, headers=key)
    assert again.status_code == 202
    assert again.json() == first.json()
    other = client.post("/v1/cases", json={**OK, "prompt": "Feed the cat?"}, headers=key)
    assert "different body" in refusal(other)
    assert read_rows(server.parts.settings.db) == before


def test_owners_do_not_share_idempotency_keys(server: RunningServer, client: httpx.Client) -> None:
    key = {"Idempotency-Key": "order 8"}
    first = client.post("/v1/cases", json=OK, headers=key).json()["hitl"]
    with server.client(server.create_key("other")) as other:
        theirs = other.post("/v1/cases", json=OK, headers=key)
    assert theirs.status_code == 202
    assert theirs.json()["hitl"]["case_id"] != first["case_id"]


# Credentials and addresses


def test_opening_needs_a_key(server: RunningServer, assert_nothing_written: None) -> None:
    with server.client() as nobody:
        refusal(nobody.post("/v1/cases", json=OK), 401, "invalid_token")
        refusal(nobody.post("/v1/cases", content=b"x" * (2 * MIB)), 401, "invalid_token")
        refusal(nobody.get("/v1/reviews"), 401, "invalid_token")
        refusal(nobody.get("/v1/callbacks"), 401, "invalid_token")
        refusal(nobody.get("/v1/deliveries"), 401, "invalid_token")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/cases", 405),
        ("PUT", "/v1/cases", 405),
        ("DELETE", "/v1/reviews/review_x/status", 405),
        ("GET", "/v1/reviews/review_x/respond", 405),
        ("POST", "/v1/reviews/review_x/status", 405),
        ("OPTIONS", "/v1/cases", 405),
        ("POST", "/v1/reviews", 405),
        ("POST", "/healthz", 405),
        ("GET", "/v1/cases/", 404),
        ("GET", "/v1", 404),
        ("GET", "/", 404),
        ("GET", "//v1/cases", 404),
        ("GET", "/v1/reviews/", 404),
        ("GET", "/v1/reviews//status", 404),
        ("GET", "/v1/reviews/../cases", 404),
        ("GET", "/v1/reviews/review_x", 404),
        ("GET", "/v1/reviews/review_x/", 404),
        ("GET", "/v1/reviews/review_x/status/", 404),
        ("GET", "/v1/reviews/review_x/STATUS", 404),
        ("GET", "/v1/reviews/a%2Fb/status", 404),
        ("GET", "/v1/reviews/%00/status", 404),
        ("GET", "/v1/reviews/%ff%fe/status", 404),
        ("GET", "/v1/reviews/" + "x" * 5000 + "/status", 404),
        ("GET", "/v1/reviews/'%20OR%201=1--/status", 404),
        ("POST", "/v1/reviews/%F0%9F%8C%B1/cancel", 404),
        ("GET", "/static/../settings.py", 404),
        ("GET", "/static/%2e%2e%2fsettings.py", 404),
        ("GET", "/static/none.css", 404),
        ("GET", "/.well-known/", 404),
        ("GET", "/api/demo", 404),
    ],
)
def test_unknown_path_or_method_is_refused(
    client: httpx.Client, assert_nothing_written: None, method: str, path: str, status: int
) -> None:
    request = client.build_request(method, "/")
    target = path.encode()
    request.extensions["target"] = target
    response = client.send(request)
    assert response.status_code == status, response.text
    assert response.json()["error"] == {404: "not_found", 405: "method_not_allowed"}[status]


@pytest.mark.parametrize(
    "query",
    [
        "status=done",
        "status=",
        "limit=0",
        "limit=-1",
        "limit=201",
        "limit=ten",
        "limit=1e2",
        "limit=%D9%A2",
        "limit=99999999999999999999",
        "before=%00",
        "before=../x",
    ],
)
def test_invalid_list_parameters_are_refused(client: httpx.Client, query: str) -> None:
    refusal(client.get(f"/v1/reviews?{query}"))


def test_an_unknown_chain_is_not_found(client: httpx.Client) -> None:
    refusal(client.get("/v1/reviews?chain=review_nothing"), 404, "not_found")


def test_cases_are_listed_newest_first_and_page_by_page(server: RunningServer) -> None:
    with server.client(server.create_key("lister")) as client:
        opened = [server.open(client, prompt=f"Number {number}?")["case_id"] for number in range(5)]
        first = client.get("/v1/reviews?limit=2").json()
        assert [one["poll"]["case_id"] for one in first["cases"]] == opened[:2:-1]
        rest = client.get(f"/v1/reviews?limit=10&before={first['next']}").json()
        assert [one["poll"]["case_id"] for one in rest["cases"]] == opened[2::-1]
        assert rest["next"] is None
        client.post(f"/v1/reviews/{opened[0]}/cancel")
        closed = client.get("/v1/reviews?status=cancelled").json()["cases"]
        assert [one["poll"]["case_id"] for one in closed] == [opened[0]]


def test_rounds_point_at_each_other_and_are_listed_as_a_chain(
    server: RunningServer, client: httpx.Client
) -> None:
    first = server.open(client)
    with server.page(first) as page:
        page.post("respond", {"action": "confirm"})
    second = server.open(client, previous_case_id=first["case_id"])
    assert client.get(first["poll_url"]).json()["next_case_id"] == second["case_id"]
    for asked in (first, second):
        chain = client.get(f"/v1/reviews?chain={asked['case_id']}").json()["cases"]
        assert [one["poll"]["case_id"] for one in chain] == [first["case_id"], second["case_id"]]


def test_nobody_continues_a_strangers_case(server: RunningServer, client: httpx.Client) -> None:
    first = server.open(client)
    with server.client(server.create_key("intruder")) as intruder:
        response = intruder.post("/v1/cases", json={**OK, "previous_case_id": first["case_id"]})
    assert "not a case of yours" in refusal(response)
    assert "next_case_id" not in client.get(first["poll_url"]).json()


# Withdrawing


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"{", "invalid_json"),
        (b"[]", "invalid_request"),
        (b'{"why": 1}', "invalid_request"),
        (b'{"reason": 7}', "invalid_request"),
        (msgspec.json.encode({"reason": "x" * 2001}), "invalid_request"),
        (b'{"reason": "a\\u0000b"}', "invalid_request"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_invalid_withdrawal_changes_nothing(
    server: RunningServer, client: httpx.Client, body: bytes, error: str
) -> None:
    hitl = server.open(client)
    refusal(client.post(f"/v1/reviews/{hitl['case_id']}/cancel", content=body), error=error)
    assert client.get(hitl["poll_url"]).json()["status"] == "pending"


def test_a_case_is_withdrawn_once_and_only_by_its_owner(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client)
    address = f"/v1/reviews/{hitl['case_id']}/cancel"
    with server.client() as nobody, server.client(server.create_key("intruder")) as intruder:
        refusal(nobody.post(address), 401, "invalid_token")
        refusal(intruder.post(address), 404, "not_found")
    withdrawn = client.post(address, json={"reason": "no need"})
    assert withdrawn.json()["status"] == "cancelled"
    assert withdrawn.json()["reason"] == "no need"
    refusal(client.post(address), 409, "duplicate_submission")
    late = server.open(client, timeout="1m")
    server.advance(minutes=2)
    refusal(client.post(f"/v1/reviews/{late['case_id']}/cancel"), 410, "case_expired")
    server.sweep()  # now, and not while another test counts what is written


# Bytes that are no request

POST = b"POST /v1/cases HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /v1/nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"BREW /v1/cases HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET  HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        POST + b"Content-Length: many\r\n\r\n{}",
        POST + b"Content-Length: -1\r\n\r\n{}",
        POST + b"Content-Length: " + b"9" * 400 + b"\r\n\r\n{}",
        POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        GET + b"A header without a colon\r\n\r\n",
        GET + b"X-Nul: a\x00b\r\n\r\n",
        GET + b"X-Del: a\x7fb\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # someone who speaks TLS
        b"\x00" * 100,
    ],
    ids=lambda value: repr(value[-60:]),
)
def test_malformed_http_gets_the_same_error_format(
    server: RunningServer, assert_nothing_written: None, request_bytes: bytes
) -> None:
    head, _, body = send_raw(server.url, request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"application/json" in head
    assert msgspec.json.decode(body)["error"] == "invalid_request"


def test_a_request_with_thousands_of_headers_does_no_harm(
    server: RunningServer, assert_nothing_written: None
) -> None:
    headers = b"".join(b"X-%d: %s\r\n" % (number, b"v" * 100) for number in range(3000))
    answer = send_raw(server.url, GET + headers + b"\r\n")
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400", b"HTTP/1.1 431"))
    with server.client() as client:
        assert client.get("/healthz").status_code == 200


def test_headers_without_an_end_are_cut_off(server: RunningServer, assert_nothing_written: None) -> None:
    target = urlsplit(server.url)
    address = (target.hostname or "", target.port or 80)
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(GET + b"X-Endless: ")
        with pytest.raises(ConnectionError):
            connection.sendall(b"v" * 32 * MIB)
    with server.client() as client:
        assert client.get("/healthz").status_code == 200


def test_a_caller_that_leaves_before_the_body_is_whole_opens_nothing(
    server: RunningServer, assert_nothing_written: None
) -> None:
    body = msgspec.json.encode(OK)
    promise = f"Authorization: Bearer {server.api_key}\r\nContent-Length: {len(body) + 1}\r\n\r\n"
    assert send_raw(server.url, POST + promise.encode() + body) == b""


def send_raw(url: str, request: bytes) -> bytes:
    """What the server answers to exactly these bytes, until it hangs up."""
    target = urlsplit(url)
    address = (target.hostname or "", target.port or 80)
    with socket.create_connection(address, timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("/v1/reviews?limt=3", "limit"),
        ("/v1/reviews?staus=pending", "status"),
        ("/v1/grants?befor=x", "before"),
    ],
)
def test_mistyped_query_parameter_is_refused_with_the_name_that_was_meant(
    client: httpx.Client, path: str, meant: str
) -> None:
    response = client.get(path)
    assert response.status_code == 400
    assert f"did you mean `{meant}`?" in response.json()["message"]
