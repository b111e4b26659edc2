"""Proofs on the page: an answer waits for them, they count for this answer once, and no failure approves."""

import asyncio
import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from placet.desk.passkey_invitations import invite, remove_passkey
from placet.errors import SignatureInvalid
from placet.http.listening import bind
from placet.signing.verify import verify_result
from placet.verification.settings import VerificationSettings
from tests.channels.email.mail_server import MailServer
from tests.server.running import ReviewPage, RunningServer, running
from tests.server.software_authenticator import PRESENT, SoftwareAuthenticator

ADA = "ada@acme.example"
PASSKEY, CODE = {"proof_type": "x-passkey"}, {"proof_type": "x-email-code"}
HERE, ELSEWHERE = ({"proof_type": "x-network", "provider": name} for name in ("here", "elsewhere"))
SETTINGS = VerificationSettings(
    email_codes=("@acme.example",), networks={"here": ("127.0.0.0/8",), "elsewhere": ("203.0.113.0/24",)}
)
Forge = Callable[[SoftwareAuthenticator], None]


@pytest.fixture(scope="module")
def mail() -> MailServer:
    return MailServer()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, mail: MailServer) -> Iterator[RunningServer]:
    listener = bind("127.0.0.1", 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLACET_EMAIL_HOST", "127.0.0.1")
        patch.setenv("PLACET_EMAIL_PORT", str(listener.getsockname()[1]))
        patch.setenv("PLACET_EMAIL_FROM", "Placet <placet@acme.example>")
        folder = tmp_path_factory.mktemp("proofs")
        with running(folder, base_url="http://localhost:{port}", verification=SETTINGS) as server:
            smtp = server.run(asyncio.start_server(mail.converse, sock=listener))
            yield server
            smtp.close()


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client(server.api_key) as client:
        yield client


@pytest.fixture(scope="module")
def device(server: RunningServer) -> SoftwareAuthenticator:
    return register(server, ADA)


def register(server: RunningServer, email: str) -> SoftwareAuthenticator:
    """Invite this person, and register a passkey for them."""
    device = SoftwareAuthenticator(server.url)
    token = server.run(invite(server.parts.store, email, name="Ada Lovelace", now=server.clock()))
    with server.client() as browser:
        shown = browser.get(f"/passkeys/new?token={token}")
        sent = {"token": token, "credential": device.create(read_options(shown.text))}
        created = browser.post("/passkeys/new", data=sent)
        assert "Your passkey is ready" in created.text
        assert "This invitation has ended" in browser.post("/passkeys/new", data=sent).text
    return device


def read_options(page: str) -> dict[str, Any]:
    found = re.search(r'data-options="([^"]*)"', page)
    assert found, page
    options: dict[str, Any] = json.loads(html.unescape(found[1]))
    return options


def strip_tags(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", "", page).split())


def require(*branches: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A policy for the page with these alternatives."""
    return {
        "mode": "required",
        "required_for": ["browser_submit"],
        "requirements": {"any_of": [{"all_of": branch} for branch in branches]},
        "binding": {"case_id": True, "action": True, "freshness_seconds": 300, "single_use": True},
        "fallback": {"on_missing": "reject", "on_invalid": "reject"},
        **changes,
    }


def decide(page: ReviewPage, action: str = "confirm") -> ReviewPage:
    """Answer on the page; the answer then waits for its proofs."""
    waiting = page.post("respond", {"action": action})
    assert "Confirm that it is you" in waiting.text, waiting.text
    return waiting


def send(page: ReviewPage, do: str, **typed: str) -> ReviewPage:
    """Send a form of the page for proofs."""
    fields = {"csrf": page.hidden_fields()["csrf"], "do": do, **typed}
    return ReviewPage(page.client, page.client.post(page.response.url, data=fields))


def poll(client: httpx.Client, hitl: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = client.get(hitl["poll_url"]).json()
    return answer


@pytest.mark.spec("13.7-stricter", "0.8-bound")
def test_a_passkey_proves_one_answer_of_one_case(
    server: RunningServer, client: httpx.Client, device: SoftwareAuthenticator
) -> None:
    hitl, other = (server.open(client, verification_policy=require([PASSKEY])) for _ in range(2))
    with server.page(hitl) as page, server.page(other) as second:
        waiting, elsewhere = decide(page), decide(second)
        credential = device.sign(read_options(waiting.text))
        assert send(elsewhere, "passkey", credential=credential).response.status_code == 403
        assert poll(client, other)["status"] == "opened"
        done = send(waiting, "passkey", credential=credential)
        assert "Answered by Ada Lovelace" in strip_tags(done.text)
        assert send(waiting, "passkey", credential=credential).response.url.path.endswith(hitl["case_id"])
    answer = poll(client, hitl)
    assert answer["responded_by"] == {"name": "Ada Lovelace", "email": ADA}
    [found] = answer["submission_context"]["verification_result"]["verified_evidence"]
    assert (found["proof_type"], found["single_use_enforced"]) == ("x-passkey", True)
    jwks = client.get("/.well-known/jwks.json").json()
    assert verify_result(answer, jwks).action == "confirm"
    answer["submission_context"]["verification_result"] = {"satisfied": False}
    with pytest.raises(SignatureInvalid):
        verify_result(answer, jwks)


FORGERIES: dict[str, Forge] = {
    "another origin": lambda device: setattr(device, "origin", "https://evil.example"),
    "another site": lambda device: setattr(device, "site", "evil.example"),
    "no fingerprint": lambda device: setattr(device, "flags", PRESENT),
    "a cloned counter": lambda device: setattr(device, "sign_count", 0),
    "another key": lambda device: setattr(device, "key", SoftwareAuthenticator("").key),
    "an unknown passkey": lambda device: setattr(device, "id", b"unknown"),
    "another person": lambda device: setattr(device, "user_handle", "bm90IGFkYQ"),
}


def test_what_a_forger_sends_never_answers(server: RunningServer, client: httpx.Client) -> None:
    used, hitl = (server.open(client, verification_policy=require([PASSKEY])) for _ in range(2))
    device = register(server, "grace@acme.example")
    device.sign_count = 7
    with server.page(used) as page:
        waiting = decide(page)
        send(waiting, "passkey", credential=device.sign(read_options(waiting.text)))
    assert poll(client, used)["status"] == "completed"
    with server.page(hitl) as page:
        for forge in FORGERIES.values():
            forged = SoftwareAuthenticator(server.url)
            vars(forged).update(vars(device))
            forge(forged)
            waiting = decide(ReviewPage(page.client, page.client.get(hitl["review_url"])))
            refused = send(waiting, "passkey", credential=forged.sign(read_options(waiting.text)))
            assert refused.response.status_code == 403
        for garbage in ("", "{}", "[1]", '{"id":"x","response":{}}', "\ud83d", "x" * 30_000):
            waiting = decide(ReviewPage(page.client, page.client.get(hitl["review_url"])))
            sent = garbage.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            assert send(waiting, "passkey", credential=sent).response.status_code == 403
    assert poll(client, hitl)["status"] == "opened"


def test_a_challenge_is_used_once_and_expires(
    server: RunningServer, client: httpx.Client, device: SoftwareAuthenticator
) -> None:
    hitl = server.open(client, verification_policy=require([PASSKEY]))
    with server.page(hitl) as page:
        waiting = decide(page)
        first = read_options(waiting.text)
        refused = send(waiting, "passkey", credential="{}")
        assert read_options(refused.text)["challenge"] != first["challenge"]
        assert send(refused, "passkey", credential=device.sign(first)).response.status_code == 403
        again = decide(ReviewPage(page.client, page.client.get(hitl["review_url"])))
        server.advance(minutes=15)
        late = send(again, "passkey", credential=device.sign(read_options(again.text)))
        assert late.response.url.path.endswith(hitl["case_id"])
    assert poll(client, hitl)["status"] == "opened"


def test_a_removed_passkey_and_one_of_another_person_prove_nothing(
    server: RunningServer, client: httpx.Client, device: SoftwareAuthenticator
) -> None:
    lost = register(server, "joan@acme.example")
    hitl = server.open(client, verification_policy=require([PASSKEY]), reviewers=["Joan@ACME.example"])
    with server.page(hitl) as page:
        waiting = decide(page)
        refused = send(waiting, "passkey", credential=device.sign(read_options(waiting.text)))
        assert "cannot answer this question" in refused.text
        id = next(one.id for one in server.run(server.parts.store.list_passkeys()) if "joan" in one.email)
        server.run(remove_passkey(server.parts.store, id))
        gone = send(refused, "passkey", credential=lost.sign(read_options(refused.text)))
        assert "not known here" in gone.text
    assert poll(client, hitl)["status"] == "opened"


@pytest.mark.spec("13.7-stricter", "13.7-collect")
def test_a_code_by_email_proves_an_answer(
    server: RunningServer, client: httpx.Client, mail: MailServer
) -> None:
    hitl = server.open(client, prompt="Pay\u202e 40 EUR?", verification_policy=require([CODE]))
    with server.page(hitl) as page:
        waiting = decide(page)
        stranger = send(waiting, "start:email_code", email="eve@evil.example")
        assert "cannot answer this question" in stranger.text
        assert mail.mails == []
        sent = send(waiting, "start:email_code", email=ADA)
        code = re.sub(r"\D", "", mail.mails[-1].message["Subject"])
        assert len(code) == 8
        assert "\u202e" not in mail.mails[-1].message.get_content()
        wrong = send(sent, "email_code", code=f"{(int(code) + 1) % 10**8:08d}")
        assert wrong.response.status_code == 403
        done = send(wrong, "email_code", code=f" {code[:4]} {code[4:]} ")
        assert f"Answered by {ADA}" in strip_tags(done.text)
    assert poll(client, hitl)["responded_by"] == {"email": ADA}


def test_codes_cannot_be_guessed(server: RunningServer, client: httpx.Client, mail: MailServer) -> None:
    hitl = server.open(client, verification_policy=require([CODE]))
    with server.page(hitl) as page:
        waiting = send(decide(page), "start:email_code", email=ADA)
        code = re.sub(r"\D", "", mail.mails[-1].message["Subject"])
        for _ in range(5):
            refused = send(waiting, "email_code", code="0")
            assert refused.response.status_code == 403
        over = send(waiting, "email_code", code=code)
        assert over.response.url.path.endswith(hitl["case_id"])
        late = send(decide(page), "start:email_code", email=ADA)
        server.advance(minutes=11)
        code = re.sub(r"\D", "", mail.mails[-1].message["Subject"])
        assert "has expired" in send(late, "email_code", code=code).text
    assert poll(client, hitl)["status"] == "opened"


@pytest.mark.spec("13.7-stricter")
def test_an_answer_counts_only_from_the_right_network(server: RunningServer, client: httpx.Client) -> None:
    inside, outside = (
        server.open(client, verification_policy=require([network])) for network in (HERE, ELSEWHERE)
    )
    with server.page(inside) as page:
        assert page.post("respond", {"action": "confirm"}).response.url == page.response.url
    assert poll(client, inside)["status"] == "completed"
    with server.page(outside) as page:
        waiting = decide(page)
        forged = page.client.post(
            waiting.response.url,
            data={"csrf": waiting.hidden_fields()["csrf"], "do": "check"},
            headers={"X-Forwarded-For": "203.0.113.9"},
        )
        assert "only from the network" in forged.text
        assert "only from the network" in send(waiting, "take").text
    assert poll(client, outside)["status"] == "opened"


def test_proofs_that_are_needed_together_are_collected_one_by_one(
    server: RunningServer, client: httpx.Client, device: SoftwareAuthenticator, mail: MailServer
) -> None:
    hitl = server.open(client, verification_policy=require([PASSKEY, CODE, HERE]))
    with server.page(hitl) as page:
        waiting = decide(page)
        sent = send(waiting, "start:email_code", email="grace@acme.example")
        code = re.sub(r"\D", "", mail.mails[-1].message["Subject"])
        half = send(sent, "email_code", code=code)
        assert "One more is needed" in half.text
        other = send(half, "passkey", credential=device.sign(read_options(half.text)))
        assert "another person" in other.text
    assert poll(client, hitl)["status"] == "opened"


def test_a_stale_proof_and_a_withdrawn_case_answer_nothing(
    server: RunningServer, client: httpx.Client, mail: MailServer
) -> None:
    binding = {**require([CODE])["binding"], "freshness_seconds": 60}
    hitl = server.open(client, verification_policy=require([CODE, PASSKEY], binding=binding))
    device = register(server, "linda@acme.example")
    with server.page(hitl) as page:
        sent = send(decide(page), "start:email_code", email="linda@acme.example")
        half = send(sent, "email_code", code=re.sub(r"\D", "", mail.mails[-1].message["Subject"]))
        server.advance(seconds=61)
        late = send(half, "passkey", credential=device.sign(read_options(half.text)))
        assert late.response.status_code == 403
        waiting = decide(ReviewPage(page.client, page.client.get(hitl["review_url"])))
        assert client.post(hitl["poll_url"].replace("/status", "/cancel")).status_code == 200
        gone = send(waiting, "passkey", credential=device.sign(read_options(waiting.text)))
        assert gone.response.url.path.endswith(hitl["case_id"])
    assert poll(client, hitl)["status"] == "cancelled"


def test_only_the_person_who_decided_sees_the_attempt(server: RunningServer, client: httpx.Client) -> None:
    hitl = server.open(client, verification_policy=require([PASSKEY]))
    with server.page(hitl) as page, server.client(follow_redirects=True) as colleague:
        waiting = decide(page)
        link = re.search(r"http://localhost:\d+/review/[^\s<]+token=[\w-]+", page.post("pass-on", {}).text)
        assert link
        colleague.get(html.unescape(link[0]))
        assert "Confirm that it is you" not in colleague.get(waiting.response.url).text
        assert "Confirm that it is you" in page.client.get(waiting.response.url).text


def test_a_passkey_is_the_second_person_of_the_four_eyes_rule(
    server: RunningServer, client: httpx.Client, device: SoftwareAuthenticator
) -> None:
    asked = {"verification_policy": require([PASSKEY]), "four_eyes": True}
    hers, theirs = server.open(client, asked_by=[ADA], **asked), server.open(client, **asked)
    for hitl, status in ((hers, "opened"), (theirs, "completed")):
        with server.page(hitl) as page:
            waiting = decide(page)
            send(waiting, "passkey", credential=device.sign(read_options(waiting.text)))
        assert poll(client, hitl)["status"] == status


def test_reviewers_need_a_policy_that_tells_who_answers(server: RunningServer, client: httpx.Client) -> None:
    draft: dict[str, Any] = {"type": "confirmation", "prompt": "Pay?", "reviewers": [ADA]}
    for fields, complaint in (
        ({}, "verification_policy"),
        ({"verification_policy": require([HERE])}, "x-passkey"),
        ({"verification_policy": require([PASSKEY], [HERE])}, "every"),
        ({"verification_policy": require([PASSKEY]), "inline_actions": ["confirm"]}, "inline_actions"),
        ({"verification_policy": require([PASSKEY]), "reviewers": ["ada"]}, "e-mail address"),
    ):
        refused = client.post("/v1/cases", json={**draft, **fields})
        assert refused.status_code == 400, fields
        assert complaint in refused.json()["message"]


def test_passkeys_are_refused_where_browsers_have_none(tmp_path: Any) -> None:
    with running(tmp_path) as bare, bare.client(bare.api_key) as client:
        draft = {"type": "confirmation", "prompt": "Pay?", "verification_policy": require([PASSKEY])}
        assert "cannot verify x-passkey" in client.post("/v1/cases", json=draft).json()["message"]
        assert client.get("/passkeys/new").status_code == 404


def test_an_erased_case_keeps_no_attempt(
    server: RunningServer, client: httpx.Client, device: SoftwareAuthenticator
) -> None:
    hitl = server.open(client, verification_policy=require([PASSKEY]))
    with server.page(hitl) as page:
        waiting, forgotten = decide(page), decide(page)
        id = forgotten.response.url.path.rpartition("/")[2]
        attempt = server.run(server.parts.store.get_verification_attempt(id))
        assert attempt is not None
        changed = replace(attempt, version=attempt.version + 1, action="cancel")
        server.run(server.parts.store.update_verification_attempt(changed))
        refused = send(forgotten, "passkey", credential=device.sign(read_options(forgotten.text)))
        assert refused.response.status_code == 403
        send(waiting, "passkey", credential=device.sign(read_options(waiting.text)))
    assert poll(client, hitl)["status"] == "completed"
    server.advance(days=40)
    server.sweep()
    assert server.run(server.parts.store.get_verification_attempt(id)) is None
