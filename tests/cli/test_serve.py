"""`placet serve` as an operator starts it: its first key, its refusals, its end."""

import re
import signal
import socket
from pathlib import Path

import pytest

from tests.cli.process import COMMAND, placet, serving
from tests.waiting import eventually

KEY = re.compile(r"placet_[A-Za-z0-9_-]{43}\n")


def test_the_first_start_prints_an_admin_key_alone_on_standard_output_and_the_second_does_not(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as first:
        first.url()
        assert KEY.fullmatch(first.stdout)
        key = first.stdout.strip()
        assert key not in first.stderr
        with first.client(key) as client:
            assert client.get("/v1/reviews").json() == {"cases": [], "next": None}
        assert first.stop() == 0
    with serving(tmp_path) as second:
        second.url()
        assert second.stdout == ""
        with second.client(key) as client:
            assert client.get("/v1/reviews").status_code == 200


def test_only_the_keys_digest_is_in_the_database(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.url()
        key = server.stdout.strip()
        assert server.stop() == 0
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("cases.db*"))
    assert key.encode() not in stored


def test_the_demo_takes_another_port_and_says_so(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with serving(tmp_path, "--port", str(port), command="demo") as demo:
            assert not demo.url().endswith(f":{port}")
            assert f"port {port}: Address already in use. The demo takes another port.\n" in demo.stderr
            assert demo.stop() == 0


def test_the_demo_shows_a_command_that_can_be_typed_in_a_checkout(tmp_path: Path) -> None:
    with serving(tmp_path, command="demo", env={"PATH": str(tmp_path)}, program=COMMAND) as demo:
        typed = f"    {COMMAND} request POST '{demo.url()}/api/demo"
        assert eventually(lambda: typed in demo.stdout)


def test_a_host_of_another_machine_is_named_without_blaming_what_runs(tmp_path: Path) -> None:
    away = ("--host", "203.0.113.1", "--base-url", "https://placet.example", "--port", "8400")
    run = placet(tmp_path, "serve", *away)
    assert run.returncode == 1
    assert run.stderr == "placet: Cannot listen on 203.0.113.1 port 8400: Cannot assign requested address.\n"


def test_a_port_in_use_is_named_and_nothing_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = placet(tmp_path, "serve", "--port", str(port))
    assert run.returncode == 1
    assert run.stderr == (
        f"placet: Cannot listen on 127.0.0.1 port {port}: Address already in use.\n"
        "Stop what runs there, or name another port with --port.\n"
    )
    assert run.stdout == ""
    assert not (tmp_path / "placet.db").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--base-url", "http://placet.example"), "base_url 'http://placet.example' must be https://"),
        (("--base-url", "https://placet.example/?a=b"), "must not have a query"),
        (("--base-url", "placet.example"), "must be https://"),
        (("--host", "0.0.0.0"), "Listening on 0.0.0.0 requires base_url"),
        (("--db", "no/such/folder.db"), "no/such/folder.db cannot be used: No such file"),
        (("--config", "no.toml"), "no.toml cannot be read"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_settings_that_cannot_work_are_refused_before_anything_is_served(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    run = placet(tmp_path, "serve", "--port", "0", *arguments)
    assert run.returncode == 1
    assert complaint in run.stderr
    assert "Traceback" not in run.stderr
    assert run.stdout == ""


def test_a_call_that_makes_no_sense_shows_how_to_get_help(tmp_path: Path) -> None:
    run = placet(tmp_path, "serve", "--port", "70000")
    assert run.returncode == 2
    assert "70000 is not in the range" in run.stderr
    assert "placet serve --help" in run.stderr


def test_a_file_that_is_no_database_of_ours_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "cases.db"
    precious.write_text("a letter, " * 1000)
    run = placet(tmp_path, "serve", "--port", "0", "--db", "cases.db")
    assert run.returncode == 1
    assert "is not an SQLite database" in run.stderr
    assert precious.read_text() == "a letter, " * 1000


def test_the_base_url_is_in_every_address_that_is_handed_out(tmp_path: Path) -> None:
    with serving(tmp_path, "--base-url", "https://placet.example/hitl/") as server:
        with server.client() as client:
            client.headers["Authorization"] = f"Bearer {server.stdout.strip()}"
            opened = client.post("/v1/cases", json={"type": "confirmation", "prompt": "Go?"}).json()["hitl"]
            base = "https://placet.example/hitl"
            assert opened["review_url"].startswith(f"{base}/review/{opened['case_id']}?token=")
            assert opened["poll_url"] == f"{base}/v1/reviews/{opened['case_id']}/status"
            entered = client.get(opened["review_url"].removeprefix(base))
        assert entered.headers["location"] == f"/hitl/review/{opened['case_id']}"
        assert f"; Path=/hitl/review/{opened['case_id']};" in entered.headers["set-cookie"]
        assert "; Secure" in entered.headers["set-cookie"]
        assert f"as {base} from" in server.stderr


def test_ctrl_c_ends_a_server_in_order(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        server.url()
        assert server.stop(signal.SIGINT) == 0
        assert "stopped" in server.stderr
        assert "Traceback" not in server.stderr
