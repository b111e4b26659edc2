"""`PLACET_…` variables: unknown ones are refused, and PLACET_PORT is read by every command."""

import re
import socket
from pathlib import Path

import pytest

from placet.channels.registry import CHANNEL_NAMES
from placet.cli.environment import CHANNEL_VARIABLES, OTHER_VARIABLES, refuse_unknown_variables
from placet.errors import SettingsError
from placet.settings import Settings
from tests.cli.process import placet, serving

ROOT = Path(__file__).parents[2]
KNOWN = OTHER_VARIABLES | {f"PLACET_{name.upper()}" for name in Settings.__struct_fields__}
VARIABLE = re.compile(r"\bPLACET_[A-Z][A-Z0-9_]*[A-Z0-9]\b")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("PLACET_PROT", "PLACET_PORT"),
        ("PLACET_ALLOW_LOOPBAK", "PLACET_ALLOW_LOOPBACK"),
        ("PLACET_BASEURL", "PLACET_BASE_URL"),
        ("PLACET_SEVER", "PLACET_SERVER"),
        ("PLACET_SLACK_BOT_TOKN", "PLACET_SLACK_BOT_TOKEN"),
        ("PLACET_SIGNIN", "PLACET_SIGNING"),
    ],
)
def test_mistyped_variable_is_refused_with_the_name_that_was_meant(name: str, meant: str) -> None:
    with pytest.raises(SettingsError) as refused:
        refuse_unknown_variables({"PATH": "/bin", name: "1"})
    assert refused.value.message == f"environment: unknown variable '{name}'. Did you mean {meant}?"


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_variable_in_another_spelling_is_refused_with_the_right_one(name: str) -> None:
    rest = name.removeprefix("PLACET_")
    misspelled = {name.lower(), name.title(), f"placet_{rest}", f"PLACET{rest}", f"PLACET-{rest}"}
    misspelled |= {
        f"PLACET__{rest}",
        f"{name}_",
        f"{name} ",
        f"PLACET.{rest}",
        name.replace("_", "-").lower(),
    }
    for other in sorted(misspelled):
        with pytest.raises(SettingsError, match=rf"Did you mean {name}\?"):
            refuse_unknown_variables({other: "1"})


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_every_variable_with_one_letter_wrong_is_refused(name: str) -> None:
    start = len("PLACET_")
    wrong = {name[:at] + name[at + 1 :] for at in range(start, len(name))}
    wrong |= {name[:at] + name[at + 1] + name[at] + name[at + 2 :] for at in range(start, len(name) - 1)}
    wrong |= {name[:at] + "Q" + name[at:] for at in range(start, len(name) + 1)}
    for other in sorted(wrong - KNOWN):
        with pytest.raises(SettingsError, match="unknown variable"):
            refuse_unknown_variables({other: "1"})


@pytest.mark.parametrize("name", ["PLACETTE_PORT", "PLACETS", "PLACET", "placetools_home", "MY_PLACET_PORT"])
def test_variables_of_other_programs_are_no_mistakes(name: str) -> None:
    refuse_unknown_variables({name: "1"})


def test_variable_that_resembles_nothing_is_refused_as_well() -> None:
    with pytest.raises(SettingsError, match=r"unknown variable 'PLACET_XYZZY'\. Unset it"):
        refuse_unknown_variables({"PLACET_XYZZY": ""})


@pytest.mark.parametrize(
    "command", [("serve",), ("settings",), ("ask", "confirmation", "Go?"), ("pending", "list")]
)
def test_every_command_refuses_a_mistyped_variable(tmp_path: Path, command: tuple[str, ...]) -> None:
    run = placet(tmp_path, *command, env={"PLACET_SERVR": "http://127.0.0.1:1"})
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == "placet: environment: unknown variable 'PLACET_SERVR'. Did you mean PLACET_SERVER?\n"


def test_help_and_version_are_printed_whatever_the_environment_is(tmp_path: Path) -> None:
    for flag in ("--help", "--version"):
        assert placet(tmp_path, flag, env={"PLACET_PROT": "1"}).returncode == 0


def test_variables_of_kubernetes_are_not_mistakes() -> None:
    address = "tcp://10.0.0.1:8400"
    refuse_unknown_variables(
        {
            "PLACET_SERVICE_HOST": "10.0.0.1",
            "PLACET_SERVICE_PORT": "8400",
            "PLACET_SERVICE_PORT_HTTP": "8400",
            "PLACET_PORT": address,
            "PLACET_PORT_8400_TCP": address,
            "PLACET_PORT_8400_TCP_PROTO": "tcp",
            "PLACET_PORT_8400_TCP_PORT": "8400",
            "PLACET_PORT_8400_TCP_ADDR": "10.0.0.1",
            "PLACET_WEB_PORT": address,
            "PLACET_WEB_SERVICE_HOST": "10.0.0.1",
        }
    )
    with pytest.raises(SettingsError):
        refuse_unknown_variables({"PLACET_WEB_PORT": "8400"})


def test_every_variable_in_the_code_and_the_docs_is_known() -> None:
    settings = {f"PLACET_{name.upper()}" for name in Settings.__struct_fields__}
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/howto/*.md"), *ROOT.glob("examples/*.py")]
    named = {name for file in files for name in VARIABLE.findall(file.read_text())}
    prefixes = {f"PLACET_{channel}" for channel in CHANNEL_VARIABLES}
    attribute_of_django = "PLACET_CLIENT"
    assert named - settings - OTHER_VARIABLES - prefixes <= {attribute_of_django}
    assert {name.lower() for name in CHANNEL_VARIABLES} == set(CHANNEL_NAMES)


def test_demo_listens_on_the_port_in_the_environment(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with serving(tmp_path, "--db", "demo.db", command="demo", env={"PLACET_PORT": port}, port=None) as demo:
        assert demo.url() == f"http://127.0.0.1:{port}"


def test_ask_calls_the_server_at_the_port_in_the_environment(tmp_path: Path) -> None:
    run = placet(tmp_path, "ask", "confirmation", "Go?", "--key", "k", env={"PLACET_PORT": "1"})
    assert run.returncode == 1
    assert "http://127.0.0.1:1 cannot be reached" in run.stderr


@pytest.mark.parametrize("port", ["many", "70000", "-1", "8400 ", "\u0663"])
def test_port_that_is_not_a_number_is_named(tmp_path: Path, port: str) -> None:
    for command in (("demo",), ("ask", "confirmation", "Go?", "--key", "k")):
        run = placet(tmp_path, *command, env={"PLACET_PORT": port})
        assert run.returncode == 1
        assert "PLACET_PORT" in run.stderr
        assert "Traceback" not in run.stderr
