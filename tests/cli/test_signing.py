"""`placet signing` and `placet verify`: keys that rotate, results that stay provable."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from placet.signing.jws_signer import JwsSigner
from tests.cli.process import ServerProcess, placet, serving
from tests.cli.strange_service import strange_service
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
    with server.client(server.stdout.strip()) as client:
        yield client


def answered(client: httpx.Client) -> dict[str, Any]:
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
    hitl = answered(client)
    (folder / "result.json").write_bytes(client.get(hitl["poll_url"]).content)
    by_file = placet(folder, "verify", "result.json")
    assert by_file.returncode == 0, by_file.stderr
    assert by_file.stdout.startswith(f"Valid: confirm on {hitl['case_id']}, signed ")
    env = {"PLACET_KEY": server.stdout.strip(), "PLACET_SERVER": server.url()}
    by_url = placet(folder, "verify", hitl["poll_url"], "--json", env=env)
    assert msgspec.json.decode(by_url.stdout)["action"] == "confirm"
    by_pipe = placet(folder, "verify", "-", stdin=(folder / "result.json").read_text())
    assert by_pipe.returncode == 0


def test_it_verifies_without_the_server_from_keys_that_were_kept(folder: Path, client: httpx.Client) -> None:
    hitl = answered(client)
    (folder / "kept.json").write_bytes(client.get(hitl["poll_url"]).content)
    (folder / "jwks.json").write_bytes(client.get("/.well-known/jwks.json").content)
    assert placet(folder, "verify", "kept.json", "--jwks", "jwks.json").returncode == 0


def test_a_result_that_was_tampered_with_does_not_verify(folder: Path, client: httpx.Client) -> None:
    poll = client.get(answered(client)["poll_url"]).json()
    poll["result"]["action"] = "cancel"
    run = placet(folder, "verify", "-", stdin=msgspec.json.encode(poll).decode())
    assert run.returncode == 1
    assert run.stdout == ""


def test_a_document_of_strangers_adds_no_line_and_obeys_nothing_where_it_is_shown(tmp_path: Path) -> None:
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
    before = client.get(answered(client)["poll_url"]).content
    old = kids(client)
    rotated = placet(folder, "signing", "rotate", "--algorithm", "EdDSA", "--db", "cases.db")
    assert rotated.returncode == 0
    assert "(EdDSA)" in rotated.stderr
    new = eventually(lambda: [kid for kid in kids(client) if kid not in old])
    after = client.get(answered(client)["poll_url"]).json()
    assert after["result"]["signature"]["algorithm"] == "EdDSA"
    listed = placet(folder, "signing", "list", "--db", "cases.db").stdout
    assert all(kid in listed for kid in (*old, *new))
    (folder / "before.json").write_bytes(before)
    (folder / "after.json").write_bytes(msgspec.json.encode(after))
    assert placet(folder, "verify", "before.json").returncode == 0
    assert placet(folder, "verify", "after.json").returncode == 0


def test_the_first_key_can_be_made_before_the_first_start(tmp_path: Path) -> None:
    placet(tmp_path, "migrate", "--db", "new.db")
    assert placet(tmp_path, "signing", "list", "--db", "new.db").stderr == "There are no signing keys yet.\n"
    assert "(ES256)" in placet(tmp_path, "signing", "rotate", "--db", "new.db").stderr


def test_an_address_that_refuses_is_quoted(folder: Path, client: httpx.Client) -> None:
    address = str(client.base_url.join("/v1/reviews/review_nothing/status"))
    run = placet(folder, "verify", address)
    assert run.returncode == 1
    assert run.stderr == f"placet: {address} answered 404: Case not found.\n"


def test_whoever_shows_no_key_for_a_poll_address_is_told_to(folder: Path, client: httpx.Client) -> None:
    run = placet(folder, "verify", str(client.base_url.join(answered(client)["poll_url"])))
    assert run.returncode == 1
    assert run.stderr.splitlines()[1] == (
        "Name the key that opened the case with --key, or in PLACET_KEY beside its server in PLACET_SERVER."
    )


def test_the_key_of_ones_own_server_is_shown_to_nobody_else(folder: Path, server: ServerProcess) -> None:
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
def test_what_cannot_be_verified_is_said_in_one_sentence(
    tmp_path: Path, source: str, stdin: str, complaint: str
) -> None:
    run = placet(tmp_path, "verify", source, stdin=stdin)
    assert run.returncode == 1
    assert complaint in run.stderr
    assert "Traceback" not in run.stderr
