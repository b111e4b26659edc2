"""`placet signing` and `placet verify`: key rotation and verification of results."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from placet.signing.jws_signer import JwsSigner
from tests.cli.process import ServerProcess, placet, serving
from tests.cli.strange_service import Reply, StrangeService, json_reply, strange_service
from tests.server.running import PRESSED
from tests.signing.polls import ring, signed_poll
from tests.waiting import eventually


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("signing")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    with serving(folder) as server:
        server.url()
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[httpx.Client]:
    with server.client(server.admin_key) as client:
        yield client


def confirm_case(client: httpx.Client) -> dict[str, Any]:
    """The `hitl` object of a case that was confirmed inline."""
    draft = {"type": "confirmation", "prompt": "Go?", "inline_actions": ["confirm"]}
    hitl: dict[str, Any] = client.post("/v1/cases", json=draft).json()["hitl"]
    token = {"Authorization": f"Bearer {hitl['submit_token']}"}
    reply = client.post(hitl["submit_url"], json={"action": "confirm", **PRESSED}, headers=token)
    assert reply.status_code == 200
    return hitl


def kids(client: httpx.Client) -> list[str]:
    return [key["kid"] for key in client.get("/.well-known/jwks.json").json()["keys"]]


def test_a_result_verifies_from_its_file_and_from_its_address(
    folder: Path, server: ServerProcess, client: httpx.Client
) -> None:
    hitl = confirm_case(client)
    (folder / "result.json").write_bytes(client.get(hitl["poll_url"]).content)
    by_file = placet(folder, "verify", "result.json", "--trust", server.url())
    assert by_file.returncode == 0, by_file.stderr
    assert by_file.stdout.startswith(f"Valid: confirm on {hitl['case_id']}, signed ")
    env = {"PLACET_KEY": server.admin_key, "PLACET_SERVER": server.url()}
    by_url = placet(folder, "verify", hitl["poll_url"], "--json", env=env)
    assert msgspec.json.decode(by_url.stdout)["action"] == "confirm"
    by_pipe = placet(folder, "verify", "-", env=env, stdin=(folder / "result.json").read_text())
    assert by_pipe.returncode == 0


def test_result_verifies_offline_with_saved_keys(folder: Path, client: httpx.Client) -> None:
    hitl = confirm_case(client)
    (folder / "kept.json").write_bytes(client.get(hitl["poll_url"]).content)
    (folder / "jwks.json").write_bytes(client.get("/.well-known/jwks.json").content)
    assert placet(folder, "verify", "kept.json", "--jwks", "jwks.json").returncode == 0


def test_a_result_that_was_tampered_with_does_not_verify(folder: Path, client: httpx.Client) -> None:
    poll = client.get(confirm_case(client)["poll_url"]).json()
    poll["result"]["action"] = "cancel"
    trust = ("--trust", str(client.base_url))
    run = placet(folder, "verify", "-", *trust, stdin=msgspec.json.encode(poll).decode())
    assert run.returncode == 1
    assert run.stdout == ""


def test_result_that_two_readers_could_read_differently_does_not_verify(
    folder: Path, client: httpx.Client
) -> None:
    poll = client.get(confirm_case(client)["poll_url"]).text
    assert poll.count('"action":"confirm"') == 1
    twice = poll.replace('"action":"confirm"', '"action":"cancel","action":"confirm"')
    run = placet(folder, "verify", "-", "--trust", str(client.base_url), stdin=twice)
    assert (run.returncode, run.stdout) == (1, "")


def test_foreign_document_cannot_inject_lines_or_control_characters(tmp_path: Path) -> None:
    signer = JwsSigner(ring("ES256"))
    poll = signed_poll(signer, action="approve on case_1\n  key    ours (ES256)\x1b[8m", case_id="\u202ecase")
    (tmp_path / "poll.json").write_bytes(msgspec.json.encode(poll))
    keys = {"keys": [key.to_public_jwk() for key in ring("ES256").keys]}
    (tmp_path / "jwks.json").write_bytes(msgspec.json.encode(keys))
    run = placet(tmp_path, "verify", "poll.json", "--jwks", "jwks.json")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith(
        "Valid: approve on case_1 key ours (ES256)⟦U+001B⟧[8m on ⟦U+202E⟧case, signed "
    )
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["Valid:", "key", "shown"]


def test_after_a_rotation_old_results_verify_and_the_running_server_signs_with_the_new_key(
    folder: Path, client: httpx.Client
) -> None:
    before = client.get(confirm_case(client)["poll_url"]).content
    old = kids(client)
    rotated = placet(folder, "signing", "rotate", "--algorithm", "EdDSA", "--db", "cases.db")
    assert rotated.returncode == 0
    assert "(EdDSA)" in rotated.stderr
    new = eventually(lambda: [kid for kid in kids(client) if kid not in old])
    after = client.get(confirm_case(client)["poll_url"]).json()
    assert after["result"]["signature"]["algorithm"] == "EdDSA"
    listed = placet(folder, "signing", "list", "--db", "cases.db").stdout
    assert all(kid in listed for kid in (*old, *new))
    (folder / "before.json").write_bytes(before)
    (folder / "after.json").write_bytes(msgspec.json.encode(after))
    trust = ("--trust", str(client.base_url))
    assert placet(folder, "verify", "before.json", *trust).returncode == 0
    assert placet(folder, "verify", "after.json", *trust).returncode == 0


def test_the_first_key_can_be_made_before_the_first_start(tmp_path: Path) -> None:
    placet(tmp_path, "migrate", "--db", "new.db")
    assert placet(tmp_path, "signing", "list", "--db", "new.db").stderr == "There are no signing keys yet.\n"
    assert "(ES256)" in placet(tmp_path, "signing", "rotate", "--db", "new.db").stderr


def test_an_address_that_refuses_is_quoted(folder: Path, client: httpx.Client) -> None:
    address = str(client.base_url.join("/v1/reviews/review_nothing/status"))
    run = placet(folder, "verify", address, "--trust", str(client.base_url))
    assert run.returncode == 1
    assert run.stderr == f"placet: {address} answered 404: Case not found.\n"


def test_poll_url_without_a_key_is_explained(folder: Path, client: httpx.Client) -> None:
    address = str(client.base_url.join(confirm_case(client)["poll_url"]))
    run = placet(folder, "verify", address, "--trust", str(client.base_url))
    assert run.returncode == 1
    assert run.stderr.splitlines()[1] == (
        "Pass the API key that created the case with --key, or set PLACET_KEY together with PLACET_SERVER."
    )


def test_key_is_sent_only_to_its_own_server(folder: Path, server: ServerProcess) -> None:
    env = {"PLACET_KEY": "placet_mine", "PLACET_SERVER": server.url()}
    with strange_service() as stranger:
        placet(folder, "verify", f"{stranger.url}/poll", env=env)
        placet(folder, "verify", f"{stranger.url}/poll", "--key", "theirs", env=env)
    shown = [call.headers.get("authorization") for call in stranger.calls]
    assert shown == [None, "Bearer theirs"]


@pytest.mark.parametrize(
    ("source", "stdin", "complaint"),
    [
        ("missing.json", "", "missing.json cannot be read: No such file or directory."),
        ("-", "not json", "- is not JSON"),
        ("-", "[1, 2]", "- is not a JSON object."),
        ("-", "[" * 100_000, "- is nested too deep."),
        ("-", '{"a":' * 100_000, "- is nested too deep."),
        ("-", '{"status": "completed", "status": "expired"}', "names a member of an object twice"),
        ("-", '{"result": {"action": "reject", "action": "approve"}}', "names a member of an object twice"),
        ("-", '{"status": "pending"}', "not a completed case with a signed result"),
        ("-", '{"result": {"signature": {"signer": 7}}}', "not a completed case with a signed result"),
        (
            "-",
            '{"result": {"signature": {"signer": "http://placet.example/jwks"}}}',
            "not fetched over plain http",
        ),
        ("http://placet.example/poll", "", "not fetched over plain http"),
        ("https://127.0.0.1:1/poll", "", "could not be fetched"),
        ("https://127.0.0.1:port/poll", "", "not fetched over plain http"),
    ],
)
def test_verification_failure_is_one_sentence(
    tmp_path: Path, source: str, stdin: str, complaint: str
) -> None:
    run = placet(tmp_path, "verify", source, "--trust", "https://placet.example", stdin=stdin)
    assert run.returncode == 1
    assert complaint in run.stderr
    assert "Traceback" not in run.stderr


@contextmanager
def forgery(signer: str | None = None) -> Iterator[tuple[str, StrangeService]]:
    """A decision that nobody made, signed with the forger's key, whose own server publishes the key."""
    forger = JwsSigner(ring("ES256"))
    with strange_service() as service:
        service.replies["/.well-known/jwks.json"] = json_reply(forger.jwks())
        poll = signed_poll(forger, action="approve")
        poll["result"]["signature"]["signer"] = (signer or "{url}/.well-known/jwks.json").format(
            url=service.url, host=service.url.removeprefix("http://")
        )
        yield msgspec.json.encode(poll).decode(), service


def test_forgery_that_names_its_own_key_server_is_not_valid(tmp_path: Path) -> None:
    with forgery() as (forged, service):
        run = placet(tmp_path, "verify", "-", stdin=forged)
    assert run.returncode == 2
    assert run.stdout == ""
    assert "--trust" in run.stderr
    assert "--jwks" in run.stderr
    assert service.calls == []  # not even asked


@pytest.mark.parametrize(
    ("signer", "trust"),
    [
        (None, "https://placet.example"),
        (None, "http://localhost:8400"),
        ("http://placet.example@{host}/.well-known/jwks.json", "https://placet.example"),
        ("{url}/.well-known/jwks.json#https://placet.example", "https://placet.example"),
        ("{url}\\@placet.example/.well-known/jwks.json", "https://placet.example"),
        ("{url}/https://placet.example/.well-known/jwks.json", "https://placet.example"),
        ("jwks.json", "https://placet.example"),
        ("/dev/stdin", "https://placet.example"),
        ("file:///etc/hostname", "https://placet.example"),
        ("", "https://placet.example"),
    ],
)
@pytest.mark.parametrize("how", ["flag", "environment"])
def test_forgery_outside_the_trusted_origin_is_refused_and_its_server_is_not_asked(
    tmp_path: Path, signer: str | None, trust: str, how: str
) -> None:
    flags, env = (("--trust", trust), {}) if how == "flag" else ((), {"PLACET_SERVER": trust})
    with forgery(signer) as (forged, service):
        (tmp_path / "jwks.json").write_bytes(msgspec.json.encode(JwsSigner(ring("ES256")).jwks()))
        run = placet(tmp_path, "verify", "-", *flags, env=env, stdin=forged)
    assert run.returncode == 1
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
    assert service.calls == []


@pytest.mark.parametrize(
    "path",
    [
        "/relay/v1/agents/forger/.well-known/agent-card.json",
        "/forger.json?/.well-known/jwks.json",
        "/forger.json%3F/.well-known/jwks.jsonx",
    ],
)
def test_forgery_that_names_another_document_at_the_trusted_origin_is_refused(
    tmp_path: Path, path: str
) -> None:
    with forgery(f"{{url}}{path}") as (forged, service):
        keys = service.replies["/.well-known/jwks.json"]
        service.replies |= {path: keys, path.partition("?")[0]: keys}
        run = placet(tmp_path, "verify", "-", "--trust", service.url, stdin=forged)
    assert (run.returncode, run.stdout) == (1, "")
    assert "pass them with --jwks" in run.stderr
    assert service.calls == []


def test_poll_url_alone_is_not_a_reason_to_trust_its_server(tmp_path: Path) -> None:
    with forgery() as (forged, service):
        service.replies["/poll"] = Reply(body=forged.encode())
        run = placet(tmp_path, "verify", f"{service.url}/poll")
        assert (run.returncode, run.stdout) == (2, "")
        trusted = placet(tmp_path, "verify", f"{service.url}/poll", "--trust", service.url)
        assert (trusted.returncode, trusted.stdout[:6]) == (0, "Valid:")


@pytest.mark.parametrize("trust", ["placet.example", "http://placet.example", "ftp://placet.example", "*"])
def test_origin_to_trust_that_is_not_a_secure_url_is_a_usage_error(tmp_path: Path, trust: str) -> None:
    with forgery() as (forged, service):
        run = placet(tmp_path, "verify", "-", "--trust", trust, stdin=forged)
    assert (run.returncode, run.stdout, service.calls) == (2, "", [])


def test_revoked_key_is_published_no_more_and_its_results_are_refused(
    folder: Path, server: ServerProcess, client: httpx.Client
) -> None:
    hitl = confirm_case(client)
    (folder / "stolen.json").write_bytes(client.get(hitl["poll_url"]).content)
    stolen = kids(client)[0]
    assert placet(folder, "verify", "stolen.json", "--trust", server.url()).returncode == 0
    run = placet(folder, "signing", "revoke", "--db", "cases.db", "--", stolen)
    assert run.returncode == 0, run.stderr
    assert run.stderr.startswith(f"Revoked {stolen}. Signing with ")
    eventually(lambda: stolen not in kids(client))
    refused = placet(folder, "verify", "stolen.json", "--trust", server.url())
    assert (refused.returncode, refused.stdout) == (1, "")
    row = next(
        line
        for line in placet(folder, "signing", "list", "--db", "cases.db").stdout.splitlines()
        if line.startswith(stolen)
    )
    assert row.count(":") == 3  # created, retired and revoked
    again = placet(folder, "signing", "revoke", "--db", "cases.db", "nothing")
    assert again.returncode == 1
    assert (
        again.stderr == "placet: There is no signing key 'nothing'. `placet signing list` shows the keys.\n"
    )
