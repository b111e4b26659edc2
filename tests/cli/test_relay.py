"""`assent relay`: an operator registers agents, callers and groups at the terminal."""

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from assent.cli.main import cli
from assent.errors import AssentError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def relay(*words: str) -> Result:
    return CliRunner().invoke(cli, ["relay", *words])


def done(*words: str) -> Result:
    result = relay(*words)
    assert result.exit_code == 0, result.output
    return result


def refused(*words: str) -> str:
    result = relay(*words)
    assert result.exit_code != 0
    return result.exception.message if isinstance(result.exception, AssentError) else result.output


def test_an_agent_is_added_listed_moved_and_removed(folder: Path) -> None:
    added = done("agent", "add", "weather", "https://weather.example", "--credential", "Authorization=W_KEY")
    assert added.stdout == "http://127.0.0.1:8400/relay/v1/agents/weather\n"
    assert "The server needs W_KEY in its environment." in added.stderr
    assert "assent relay caller add NAME --agent weather" in added.stderr
    assert refused("agent", "add", "weather", "https://other.example") == (
        "There is an agent of this id already."
    )
    done("agent", "add", "weather", "https://other.example", "--header", "X-Region", "--replace")
    [listed] = msgspec.json.decode(done("agent", "list", "--json").stdout)
    assert (listed["url"], listed["forwardHeaders"], listed["rev"]) == (
        "https://other.example",
        ["X-Region"],
        2,
    )
    done("agent", "remove", "weather")
    assert refused("agent", "remove", "weather") == "There is no such agent."
    assert done("agent", "list").stderr == "There are no agents yet.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("http://127.0.0.1:9",), "allow_loopback"),
        (("https://10.0.0.1",), "10.0.0.1"),
        (("https://a.example", "--credential", "Authorization=Bearer secret"), "not the value"),
        (("https://a.example", "--credential", "Authorization"), "HEADER=VARIABLE"),
        (("https://a.example", "--header", "Cookie"), "never forwarded"),
        (("https://a.example", "--tenant", "Not A Tenant"), "a-z"),
    ],
)
def test_what_cannot_be_is_refused_in_words(folder: Path, words: tuple[str, ...], said: str) -> None:
    assert said in refused("agent", "add", "a", *words)


def test_callers_gain_and_lose_agents(folder: Path) -> None:
    elsewhere = done("agent", "add", "one", "https://one.example", "--tenant", "north").stderr
    assert "assent relay caller add NAME --agent one --tenant north" in elsewhere
    for name in ("one", "two"):
        done("agent", "add", name, f"https://{name}.example")
    done("caller", "add", "ada", "--agent", "one", "--kind", "user")
    done("caller", "add", "ada", "--agent", "two")
    assert done("caller", "list").stdout.splitlines()[1].split() == ["ada", "user", "one,", "two", "store"]
    done("caller", "remove", "ada", "--agent", "one")
    assert msgspec.json.decode(done("caller", "list", "--json").stdout)[0]["agents"] == ["two"]
    assert "no agent 'three'" in refused("caller", "add", "ada", "--agent", "three")
    assert "a principal belongs to one" in refused(
        "caller", "add", "ada", "--agent", "x", "--tenant", "north"
    )
    done("caller", "remove", "ada")
    assert done("caller", "list").stderr == "There are no callers yet.\n"


def test_groups_grow_and_shrink(folder: Path) -> None:
    done("group", "add", "reviewers", "--member", "ada", "--permission", "AGENT_CONVERSATIONS:READ")
    done("group", "add", "reviewers", "--member", "bob", "--permission", "AGENT_CONVERSATIONS:WRITE")
    [listed] = msgspec.json.decode(done("group", "list", "--json").stdout)
    assert listed["members"] == ["ada", "bob"]
    assert listed["permissions"] == ["AGENT_CONVERSATIONS:READ", "AGENT_CONVERSATIONS:WRITE"]
    done("group", "remove", "reviewers", "--member", "ada", "--permission", "AGENT_CONVERSATIONS:READ")
    assert done("group", "list").stdout.splitlines()[1].split() == [
        "reviewers",
        "bob",
        "AGENT_CONVERSATIONS:WRITE",
        "store",
    ]
    assert "'EVERYTHING'" in refused("group", "add", "more", "--permission", "EVERYTHING")
    done("group", "remove", "reviewers")
    assert done("group", "list").stderr == "There are no groups yet.\n"


def test_what_the_settings_file_says_is_listed_and_left_alone(folder: Path) -> None:
    (folder / "assent.toml").write_text(
        '[relay.agents.weather]\nurl = "https://weather.example"\n'
        'credentials = { Authorization = "NOT_IN_THIS_SHELL" }\n'
        '[relay.callers.ada]\nagents = ["weather"]\n'
        '[relay.groups.reviewers]\nmembers = ["ada"]\npermissions = ["AUDIT:READ"]\n'
    )
    done("agent", "add", "news", "https://news.example")
    listed = msgspec.json.decode(done("agent", "list", "--json").stdout)
    assert [(one["agentId"], one["origin"]) for one in listed] == [("news", "store"), ("weather", "settings")]
    for words in (
        ("agent", "remove", "weather"),
        ("caller", "add", "ada", "--agent", "news"),
        ("group", "remove", "reviewers"),
    ):
        assert "settings file" in refused(*words)


def test_who_has_another_server_in_mind_is_told_and_gets_no_new_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSENT_SERVER", "https://assent.example/")
    result = relay("agent", "add", "weather", "https://weather.example")
    assert "about the database assent.db, not about the server at https://assent.example" in result.stderr
    assert isinstance(result.exception, AssentError)
    assert not (folder / "assent.db").exists()
    monkeypatch.setenv("ASSENT_SERVER", "http://127.0.0.1:8400/")
    assert "not about the server" not in done("agent", "add", "weather", "https://weather.example").stderr
