"""`placet key`: keys made, listed and revoked beside a running server."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.cli.process import ServerProcess, placet, serving
from tests.waiting import eventually


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("keys")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ServerProcess]:
    with serving(folder) as server:
        server.url()
        yield server


def created(folder: Path, *arguments: str) -> str:
    run = placet(folder, "key", "create", *arguments, "--db", "cases.db")
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"placet_[A-Za-z0-9_-]{43}\n", run.stdout)
    return run.stdout.strip()


def list_keys(folder: Path) -> dict[str, dict[str, object]]:
    run = placet(folder, "key", "list", "--json", "--db", "cases.db")
    return {one["name"]: one for one in msgspec.json.decode(run.stdout)}


def test_a_new_key_works_at_once_on_the_running_server(folder: Path, server: ServerProcess) -> None:
    with server.client(created(folder, "Parcel Desk")) as client:
        assert client.get("/v1/reviews").status_code == 200
    assert list_keys(folder)["Parcel Desk"]["scopes"] == ["cases:write", "cases:read"]


def test_creating_a_key_in_an_empty_folder_warns_about_a_new_database(tmp_path: Path) -> None:
    first, second = (placet(tmp_path, "key", "create", "me", "--db", "own.db") for _ in range(2))
    assert first.stderr == "Created a new database, own.db. The key works with servers that use it.\n"
    assert second.stderr == ""
    moved = placet(tmp_path, "migrate", "--db", "slip.db")
    assert re.fullmatch(r"Created slip\.db at schema \d+\.\n", moved.stderr)


def test_a_revoked_key_stops_working_on_the_running_server(folder: Path, server: ServerProcess) -> None:
    with server.client(created(folder, "leaver")) as client:
        assert client.get("/v1/reviews").status_code == 200
        key_id = str(list_keys(folder)["leaver"]["id"])
        run = placet(folder, "key", "revoke", key_id, "--db", "cases.db")
        assert (run.returncode, run.stdout, run.stderr) == (0, "", f"Revoked {key_id}.\n")
        eventually(lambda: client.get("/v1/reviews").status_code == 401)
        assert client.get("/v1/reviews").json()["error"] == "invalid_token"
    assert list_keys(folder)["leaver"]["state"] == "revoked"
    assert placet(folder, "key", "revoke", key_id, "--db", "cases.db").returncode == 0


def test_key_is_limited_to_its_scopes(folder: Path, server: ServerProcess) -> None:
    with server.client(created(folder, "reader", "--scope", "cases:read")) as client:
        assert client.get("/v1/reviews").status_code == 200
        refused = client.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"})
    assert refused.status_code == 403
    assert refused.json()["error"] == "not_permitted"
    assert "cases:write" in refused.json()["message"]


def test_a_write_only_key_cannot_read_results(folder: Path, server: ServerProcess) -> None:
    with server.client(created(folder, "writer", "--scope", "cases:write")) as client:
        opened = client.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"}).json()["hitl"]
        answers = [
            client.get(opened["poll_url"]),
            client.get(opened["events_url"]),
            client.get("/v1/reviews"),
        ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]


def test_keys_of_one_name_are_one_principal(folder: Path, server: ServerProcess) -> None:
    with server.client(created(folder, "twin")) as one, server.client(created(folder, "twin")) as other:
        opened = one.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"}).json()["hitl"]
        assert other.get(opened["poll_url"]).status_code == 200


def test_an_expired_key_is_shown_as_such(folder: Path) -> None:
    created(folder, "guest", "--expires-in", "90d")
    assert list_keys(folder)["guest"]["state"] == "active"
    table = placet(folder, "key", "list", "--db", "cases.db").stdout
    assert "guest" in table
    assert "placet_" not in table


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (("create", ""), 1, "A key's name is 1 to 100 printable characters."),
        (("create", "x" * 101), 1, "A key's name is 1 to 100 printable characters."),
        (("create", "two\nlines"), 1, "printable"),
        (("create", "relay:default"), 1, "reserved for the relay"),
        (("create", "guest", "--expires-in", "soon"), 1, "not a duration"),
        (("create", "guest", "--scope", "all"), 2, "'all' is not one of"),
        (("create",), 2, "Missing argument 'NAME'"),
        (("revoke", "nobody"), 1, "There is no key 'nobody'."),
        (("list", "--db", "none.db"), 1, "There is no database none.db. Pass its URL with --db"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_error_is_one_sentence(folder: Path, arguments: tuple[str, ...], code: int, complaint: str) -> None:
    where = () if "--db" in arguments else ("--db", "cases.db")
    run = placet(folder, "key", *arguments, *where)
    assert run.returncode == code
    assert complaint in run.stderr
    assert run.stdout == ""
    assert "Traceback" not in run.stderr
