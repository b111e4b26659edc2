"""The relay's settings: what is read from a file, what is refused, and what is shown of them."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from placet.cli.settings import settings as settings_command
from placet.errors import SettingsError
from placet.relay.registry import check_credentials, snapshot_from_settings
from placet.settings import Settings, build_settings, load

FILE = """
[relay]
early_return = "3s"
networks = ["10.0.0.0/8", "fd00::/8"]

[relay.agents.weather]
url = "https://weather.example/a2a/"
forward_headers = ["X-Region"]
credentials = { Authorization = "WEATHER_AUTHORIZATION" }

[relay.callers."trip planner"]
agents = ["weather"]
kind = "user"

[relay.groups.reviewers]
members = ["ada \\"the first\\" B.", "trip planner"]
permissions = ["AUDIT:READ"]

[relay.tenants.default]
payloads = "none"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "placet.toml"
    path.write_text(FILE)
    return path


def test_file_lists_agents_callers_and_subscriptions(file: Path) -> None:
    relay = load(environ={}, file=file).settings.relay
    assert relay is not None
    registry = snapshot_from_settings(relay, {"WEATHER_AUTHORIZATION": "Bearer secret"})
    found = registry.subscription("trip planner", "weather")
    assert (found.source.kind, found.sink.url) == ("user", "https://weather.example/a2a")
    assert found.sink.credentials == {"Authorization": "Bearer secret"}
    assert found.sink.forward_headers == ("x-region",)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "environ", [{}, {"WEATHER_AUTHORIZATION": ""}, {"WEATHER_AUTHORIZATION": "a\r\nb: c"}]
)
def test_invalid_credential_is_refused_at_start(file: Path, environ: dict[str, str]) -> None:
    relay = load(environ={}, file=file).settings.relay
    assert relay is not None
    with pytest.raises(SettingsError, match=r"relay\.agents\.weather"):
        check_credentials(relay, environ)


def test_settings_are_shown_as_a_file_that_can_be_read_again(file: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(settings_command, ["--config", str(file)])
    assert shown.exit_code == 0, shown.output
    again = tmp_path / "again.toml"
    again.write_text(shown.output)
    assert load(environ={}, file=again).settings == load(environ={}, file=file).settings


def build_agent(**fields: Any) -> dict[str, Any]:
    return {"relay": {"agents": {"a": {"url": "https://a.example", **fields}}}}


@pytest.mark.parametrize(
    "values",
    [
        build_agent(url="http://a.example"),
        build_agent(url="http://127.0.0.1:1"),
        build_agent(url="https://10.0.0.1"),
        build_agent(url="https://169.254.169.254"),
        build_agent(url="https://a.example/?q=1"),
        build_agent(url="https://user:word@a.example"),
        build_agent(card_url="http://localhost/card"),
        build_agent(unknown=1),
        build_agent(credentials={"Host": "X"}),
        build_agent(credentials={"a b": "X"}),
        build_agent(forward_headers=["Authorization"]),
        build_agent(forward_headers=["cookie"]),
        build_agent(streaming="sometimes"),
        build_agent(forward_headers=["transfer-encoding"]),
        {"relay": {"agents": {"a/b": {"url": "https://a.example"}}}},
        {"relay": {"agents": {"": {"url": "https://a.example"}}}},
        {"relay": {"agents": {"..": {"url": "https://a.example"}}}},
        {"relay": {"callers": {"c": {"agents": ["nobody"]}}}},
        {"relay": {"callers": {"c": {"agents": [], "kind": "robot"}}}},
        {"relay": {"early_return": "soon"}},
        {"relay": {"max_message_bytes": 1}},
        {"relay": {"max_calls": 0}},
        {"relay": {"stream_window": 10}},
        {"relay": {"stream_window": 200, "stream_carry": 200}},
        {"relay": {"networks": ["0.0.0.0/0"]}},
        {"relay": {"networks": ["::/0"]}},
        {"relay": {"networks": ["127.0.0.0/8"]}},
        {"relay": {"networks": ["169.254.0.0/16"]}},
        {"relay": {"networks": ["intranet"]}},
        {"relay": {"networks": [10]}},
        {"relay": {"networks": "10.0.0.0/8"}},
        {"relay": "yes"},
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        build_settings(values)


def test_agents_in_private_networks_need_a_listed_network() -> None:
    for url in ("https://10.1.2.3/a2a", "https://clerk.agents.svc.cluster.local"):
        with pytest.raises(SettingsError, match=r"add the network to relay\.networks"):
            build_settings(build_agent(url=url))
        build_settings({"relay": {"networks": ["10.0.0.0/8"], "agents": {"a": {"url": url}}}})
    outside = {"networks": ["10.0.0.0/8"], "agents": {"a": {"url": "https://192.168.0.1"}}}
    with pytest.raises(SettingsError, match=r"192\.168\.0\.1"):
        build_settings({"relay": outside})


def test_a_network_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    file = tmp_path / "wide.toml"
    file.write_text('[relay]\nnetworks = ["10.0.0.0/8", "::/0"]\n')
    with pytest.raises(SettingsError, match=r"relay\.networks: '::/0' is not inside the private networks"):
        load(environ={}, file=file)


def test_the_networks_are_shown(file: Path) -> None:
    shown = CliRunner().invoke(settings_command, ["--config", str(file)])
    assert 'networks = ["10.0.0.0/8","fd00::/8"]' in shown.output


def test_without_agents_there_is_no_relay() -> None:
    assert build_settings({"relay": ""}) == Settings()
    loopback = build_settings(build_agent(url="http://127.0.0.1:1") | {"allow_loopback": True})
    assert loopback.relay is not None
