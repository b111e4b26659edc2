"""`placet relay`: an operator registers agents, callers and groups at the terminal."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from placet.cli.main import cli
from placet.errors import PlacetError
from placet.relay.settings import GroupSettings, RelaySettings
from tests.cli.process import placet, serving
from tests.server.running import RunningServer, running


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLACET_SERVER", raising=False)
    return tmp_path


def relay(*words: str) -> Result:
    return CliRunner().invoke(cli, ["relay", *words])


def run_relay(*words: str) -> Result:
    result = relay(*words)
    assert result.exit_code == 0, result.output
    return result


def run_refused(*words: str) -> str:
    result = relay(*words)
    assert result.exit_code != 0
    return result.exception.message if isinstance(result.exception, PlacetError) else result.output


def test_an_agent_is_added_listed_moved_and_removed(folder: Path) -> None:
    added = run_relay(
        "agent", "add", "weather", "https://weather.example", "--credential", "Authorization=W_KEY"
    )
    assert added.stdout == "http://127.0.0.1:8400/relay/v1/agents/weather\n"
    assert "The server needs W_KEY in its environment." in added.stderr
    assert "placet relay caller add NAME --agent weather" in added.stderr
    assert run_refused("agent", "add", "weather", "https://other.example") == (
        "An agent with this id already exists. Choose another id."
    )
    more = ("--header", "X-Region", "--streaming", "whole", "--replace")
    run_relay("agent", "add", "weather", "https://other.example", *more)
    [listed] = msgspec.json.decode(run_relay("agent", "list", "--json").stdout)
    assert (listed["url"], listed["forwardHeaders"], listed["streaming"], listed["rev"]) == (
        "https://other.example",
        ["X-Region"],
        "whole",
        2,
    )
    run_relay("agent", "remove", "weather")
    assert run_refused("agent", "remove", "weather") == "Agent not found."
    assert run_relay("agent", "list").stderr == "There are no agents yet.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("http://127.0.0.1:9",), "allow_loopback"),
        (("https://10.0.0.1",), "10.0.0.1"),
        (("https://10.0.0.1",), "relay.networks"),
        (("https://a.example", "--credential", "Authorization=Bearer secret"), "not the value"),
        (("https://a.example", "--credential", "Authorization"), "HEADER=VARIABLE"),
        (("https://a.example", "--header", "Cookie"), "never forwarded"),
        (("https://a.example", "--tenant", "Not A Tenant"), "a-z"),
    ],
)
def test_invalid_arguments_are_explained(folder: Path, words: tuple[str, ...], said: str) -> None:
    assert said in run_refused("agent", "add", "a", *words)


def test_an_agent_is_registered_in_a_network_that_the_settings_list(folder: Path) -> None:
    (folder / "placet.toml").write_text('[relay]\nnetworks = ["10.0.0.0/8"]\n')
    run_relay("agent", "add", "near", "https://10.0.0.1")
    run_relay("agent", "add", "named", "https://clerk.agents.svc")
    assert "192.168.0.1" in run_refused("agent", "add", "far", "https://192.168.0.1")


def test_callers_gain_and_lose_agents(folder: Path) -> None:
    elsewhere = run_relay("agent", "add", "one", "https://one.example", "--tenant", "north").stderr
    assert "placet relay caller add NAME --agent one --tenant north" in elsewhere
    for name in ("one", "two"):
        run_relay("agent", "add", name, f"https://{name}.example")
    run_relay("caller", "add", "ada", "--agent", "one", "--kind", "user")
    run_relay("caller", "add", "ada", "--agent", "two")
    assert run_relay("caller", "list").stdout.splitlines()[1].split() == [
        "ada",
        "user",
        "one,",
        "two",
        "store",
    ]
    run_relay("caller", "remove", "ada", "--agent", "one")
    assert msgspec.json.decode(run_relay("caller", "list", "--json").stdout)[0]["agents"] == ["two"]
    assert "'three' is not registered" in run_refused("caller", "add", "ada", "--agent", "three")
    assert "a principal belongs to one" in run_refused(
        "caller", "add", "ada", "--agent", "x", "--tenant", "north"
    )
    run_relay("caller", "remove", "ada")
    assert run_relay("caller", "list").stderr == "There are no callers yet.\n"


def test_groups_grow_and_shrink(folder: Path) -> None:
    run_relay("group", "add", "reviewers", "--member", "ada", "--permission", "AGENT_CONVERSATIONS:READ")
    run_relay("group", "add", "reviewers", "--member", "bob", "--permission", "AGENT_CONVERSATIONS:WRITE")
    [listed] = msgspec.json.decode(run_relay("group", "list", "--json").stdout)
    assert listed["members"] == ["ada", "bob"]
    assert listed["permissions"] == ["AGENT_CONVERSATIONS:READ", "AGENT_CONVERSATIONS:WRITE"]
    run_relay("group", "remove", "reviewers", "--member", "ada", "--permission", "AGENT_CONVERSATIONS:READ")
    assert run_relay("group", "list").stdout.splitlines()[1].split() == [
        "reviewers",
        "bob",
        "AGENT_CONVERSATIONS:WRITE",
        "store",
    ]
    assert "'EVERYTHING'" in run_refused("group", "add", "more", "--permission", "EVERYTHING")
    run_relay("group", "remove", "reviewers")
    assert run_relay("group", "list").stderr == "There are no groups yet.\n"


def test_entries_of_the_settings_file_are_listed_and_read_only(folder: Path) -> None:
    (folder / "placet.toml").write_text(
        '[relay.agents.weather]\nurl = "https://weather.example"\n'
        'credentials = { Authorization = "NOT_IN_THIS_SHELL" }\n'
        '[relay.callers.ada]\nagents = ["weather"]\n'
        '[relay.groups.reviewers]\nmembers = ["ada"]\npermissions = ["AUDIT:READ"]\n'
    )
    run_relay("agent", "add", "news", "https://news.example")
    listed = msgspec.json.decode(run_relay("agent", "list", "--json").stdout)
    assert [(one["agentId"], one["origin"]) for one in listed] == [("news", "store"), ("weather", "settings")]
    for words in (
        ("agent", "remove", "weather"),
        ("caller", "add", "ada", "--agent", "news"),
        ("group", "remove", "reviewers"),
    ):
        assert "settings file" in run_refused(*words)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    readers = GroupSettings(members=("reader",), permissions=("AGENTS:READ",))
    with running(
        tmp_path_factory.mktemp("afar"), relay=RelaySettings(enabled=True, groups={"readers": readers})
    ) as found:
        yield found


@pytest.fixture
def remote_server(server: RunningServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> RunningServer:
    """A server elsewhere, named for every command with the key of its administrator."""
    monkeypatch.setenv("PLACET_SERVER", server.url)
    monkeypatch.setenv("PLACET_KEY", server.create_key("root", "admin"))
    return server


def test_registry_of_a_remote_server_can_be_changed(remote_server: RunningServer, folder: Path) -> None:
    added = run_relay(
        "agent", "add", "weather", "https://weather.example", "--credential", "Authorization=W_KEY"
    )
    assert added.stdout == f"{remote_server.url}/relay/v1/agents/weather\n"
    assert "The server needs W_KEY in its environment." in added.stderr
    assert run_refused("agent", "add", "weather", "https://other.example") == (
        "An agent with this id already exists. Choose another id."
    )
    run_relay("agent", "add", "weather", "https://other.example", "--replace")
    run_relay("caller", "add", "ada lovelace", "--agent", "weather", "--kind", "user")
    run_relay("group", "add", "reviewers", "--member", "ada lovelace", "--permission", "AUDIT:READ")
    [agent] = msgspec.json.decode(run_relay("agent", "list", "--json").stdout)
    assert (agent["url"], agent["callers"], agent["rev"]) == ("https://other.example", ["ada lovelace"], 2)
    assert run_relay("caller", "list").stdout.splitlines()[1].split()[2:] == ["user", "weather", "store"]
    assert "readers" in run_relay("group", "list").stdout
    run_relay("group", "remove", "reviewers", "--permission", "AUDIT:READ")
    run_relay("group", "remove", "reviewers")
    run_relay("caller", "remove", "ada lovelace", "--agent", "weather")
    run_relay("caller", "remove", "ada lovelace")
    run_relay("agent", "remove", "weather")
    assert run_refused("agent", "remove", "weather") == "Agent not found."
    assert not (folder / "placet.db").exists()


def test_an_administrator_names_the_tenant_on_a_server(remote_server: RunningServer) -> None:
    told = run_relay("agent", "add", "north-star", "https://north.example", "--tenant", "north").stderr
    assert "placet relay caller add NAME --agent north-star --tenant north" in told
    assert "north-star" in run_relay("agent", "list", "--tenant", "north").stdout
    assert "north-star" not in run_relay("agent", "list").stdout
    assert "a-z" in run_refused("agent", "list", "--tenant", "Not A Tenant")


def test_a_key_may_do_on_a_server_what_its_groups_allow(remote_server: RunningServer) -> None:
    reader = ("--server", remote_server.url, "--key", remote_server.create_key("reader"))
    assert run_relay("agent", "list", *reader).exit_code == 0
    assert "AGENTS:WRITE" in run_refused("agent", "add", "mine", "https://mine.example", *reader)
    assert "AGENTS:WRITE" in run_refused("caller", "add", "reader", "--agent", "mine", *reader)
    assert "GROUPS:READ" in run_refused("group", "add", "mine", *reader)


@pytest.mark.parametrize(
    ("server", "key", "said"),
    [
        ("https://placet.example/", "", "PLACET_KEY"),
        ("http://placet.example", "placet_key", "https"),
        ("http://127.0.0.1:1", "placet_key", "cannot be reached"),
    ],
)
def test_unreachable_remote_server_changes_no_local_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, server: str, key: str, said: str
) -> None:
    monkeypatch.setenv("PLACET_SERVER", server)
    monkeypatch.setenv("PLACET_KEY", key)
    assert said in run_refused("agent", "add", "weather", "https://weather.example")
    assert not (folder / "placet.db").exists()


def test_database_flag_overrides_the_server_with_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = ("agent", "add", "weather", "https://weather.example")
    monkeypatch.setenv("PLACET_SERVER", "https://placet.example/")
    result = relay(*add, "--db", "placet.db")
    assert "uses the database placet.db, not the server at https://placet.example" in result.stderr
    assert isinstance(result.exception, PlacetError)
    assert not (folder / "placet.db").exists()
    monkeypatch.setenv("PLACET_SERVER", "http://127.0.0.1:8400/")
    assert "not about the server" not in run_relay(*add).stderr


def test_local_server_is_found_from_any_folder(
    remote_server: RunningServer, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "PLACET_BASE_URL", remote_server.url
    )  # as a server does that listens where the settings say
    run_relay("agent", "add", "from-elsewhere", "https://weather.example")
    assert "from-elsewhere" in run_relay("agent", "list").stdout
    assert not (folder / "placet.db").exists()


def test_an_administrator_registers_the_first_agent_on_a_server(folder: Path) -> None:
    with running(folder, relay=None) as quiet:
        there = ("--server", quiet.url, "--key", quiet.create_key("root", "admin"))
        added = run_relay("agent", "add", "weather", "https://weather.example", *there)
        assert added.stdout == f"{quiet.url}/relay/v1/agents/weather\n"
        run_relay("caller", "add", "ada", "--agent", "weather", *there)


def test_the_first_agent_is_added_where_only_the_port_was_given(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        env = {"PLACET_SERVER": server.url(), "PLACET_KEY": server.admin_key}
        added = placet(tmp_path, "relay", "agent", "add", "clerk", "https://clerk.example", env=env)
        assert (added.stdout, added.returncode) == (f"{server.url()}/relay/v1/agents/clerk\n", 0)
        listed = placet(tmp_path, "relay", "agent", "list", env=env)
        assert "clerk" in listed.stdout


def test_server_without_a_relay_is_reported_with_a_hint(folder: Path) -> None:
    with running(folder, relay=None) as quiet:
        there = ("--server", quiet.url, "--key", quiet.create_key("ada"))
        assert "relay.enabled" in run_refused("agent", "add", "weather", "https://weather.example", *there)
        assert "relay.enabled" in run_refused("caller", "add", "ada", "--agent", "weather", *there)
