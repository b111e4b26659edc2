"""Settings: where they come from, which source wins, and what is refused."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import SettingsError
from placet.settings import Settings, build_settings, load


@pytest.fixture(autouse=True)
def change_to_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here reads a placet.toml that happens to lie about."""
    monkeypatch.chdir(tmp_path)


def write(path: str, text: str) -> Path:
    Path(path).write_text(text)
    return Path(path)


def test_defaults_apply_when_nothing_is_set() -> None:
    found = load(environ={})
    assert found.settings == Settings()
    assert set(found.origins.values()) == {"default"}
    assert found.settings.public_url == "http://127.0.0.1:8400"


def test_later_sources_win_and_each_is_named() -> None:
    write("placet.toml", 'db = "file.db"\nport = 1\nretention = "1d"\n')
    found = load(environ={"PLACET_PORT": "2", "PLACET_DB": "environment.db"}, flags={"port": 3, "host": None})
    assert (found.settings.db, found.settings.port, found.settings.retention) == ("environment.db", 3, "1d")
    assert found.origins["db"] == "environment PLACET_DB"
    assert found.origins["port"] == "flag"
    assert found.origins["retention"] == "file placet.toml"
    assert found.origins["host"] == "default"


def test_settings_file_is_found_in_the_folder_or_by_name() -> None:
    write("placet.toml", "port = 1")
    write("other.toml", "port = 2")
    assert load(environ={}).settings.port == 1
    assert load(environ={"PLACET_CONFIG": "other.toml"}).settings.port == 2
    assert load(environ={"PLACET_CONFIG": "placet.toml"}, file=Path("other.toml")).settings.port == 2


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("LOG_REQUESTS", "true", True),
        ("LOG_REQUESTS", "0", False),
        ("PORT", "0", 0),
        ("POLLS_PER_MINUTE", "0", 0),
        ("SERVICE_NAME", "8400", "8400"),
        ("BASE_URL", "", None),
        ("THEME", "", None),
        ("SIGNING", "none", "none"),
    ],
)
def test_environment_values_are_parsed_from_text(name: str, text: str, value: object) -> None:
    assert getattr(load(environ={f"PLACET_{name}": text}).settings, name.lower()) == value


@pytest.mark.parametrize("name", sorted(set(Settings.__struct_fields__) - {"relay"}))
def test_empty_variable_is_the_same_as_one_that_is_not_set(name: str) -> None:
    assert load(environ={f"PLACET_{name.upper()}": ""}).settings == Settings()


def test_environment_variables_of_other_programs_are_ignored() -> None:
    assert load(environ={"PLACET_SERVICE_HOST": "10.0.0.1", "PORT": "1"}).settings == Settings()


@pytest.mark.parametrize(
    "values",
    [
        {"port": -1},
        {"port": 65536},
        {"port": "many"},
        {"port": 80.5},
        {"polls_per_minute": -1},
        {"max_body_bytes": 0},
        {"signing": "HS256"},
        {"signing": "es256"},
        {"log_level": "loud"},
        {"log_style": "xml"},
        {"default_timeout": ""},
        {"db": ""},
        {"db": " "},
        {"default_timeout": "0s"},
        {"max_timeout": "soon"},
        {"default_timeout": "8d"},
        {"retention": "-1d"},
        {"db": None},
        {"service_name": 7},
        {"allow_loopback": "perhaps"},
        {"base_url": "http://placet.example"},
        {"base_url": "https://"},
        {"base_url": "https://placet.example/#here"},
        {"base_url": "https://placet.example?x=1"},
        {"base_url": "https://user:word@placet.example"},
        {"base_url": "ftp://placet.example"},
        {"base_url": "https://placet.example\n"},
        {"theme": "no/such/folder"},
        {"theme": __file__},
        {"theme": "x" * 300},
        {"host": "0.0.0.0"},
        {"host": "::"},
        {"host": "placet.example"},
    ],
    ids=repr,
)
def test_invalid_values_are_refused(values: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        build_settings(values)


@pytest.mark.parametrize(
    ("values", "public_url"),
    [
        ({"host": "localhost", "port": 1}, "http://localhost:1"),
        ({"host": "::1", "port": 1}, "http://[::1]:1"),
        ({"base_url": "http://localhost:9/hitl/"}, "http://localhost:9/hitl"),
        ({"base_url": "https://placet.example"}, "https://placet.example"),
        ({"base_url": "https://placet.example", "host": "0.0.0.0"}, "https://placet.example"),
        ({"base_url": "HTTPS://Placet.Example:443/Fragen"}, "https://placet.example/Fragen"),
        ({"base_url": "https://bücher.example/übergabe/"}, "https://xn--bcher-kva.example/%C3%BCbergabe"),
    ],
)
def test_public_url_is_derived_from_the_settings(values: dict[str, Any], public_url: str) -> None:
    assert build_settings(values).public_url == public_url


def test_limits_are_settings() -> None:
    limits = build_settings({"max_timeout": "30d", "default_timeout": "PT36H", "retention": "1d"}).limits
    assert limits.max_timeout_for == timedelta(days=30)
    assert limits.default_timeout_for == timedelta(hours=36)
    assert limits.keep_for == timedelta(days=1)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("port = 1\nport = 2", "not valid TOML"),
        ("[server]\nport = 1", "unknown setting 'server'"),
        ("prot = 1", "file placet.toml: unknown setting 'prot'."),
        ("port = 'x'", "port is not valid: Expected `int`, got `str` (from file placet.toml)."),
        (
            "[relay]\nagnets = {}",
            "relay is not valid: Object contains unknown field `agnets` (did you mean `agents`?)",
        ),
        ('[relay.agents.a]\nulr = "x"', "unknown field `ulr` (did you mean `url`?)"),
        ('[relay.notices.a]\nulr = "x"', "(did you mean `url`?)"),
        ("\x00", "not valid TOML"),
    ],
)
def test_error_names_the_invalid_settings_file(text: str, complaint: str) -> None:
    write("placet.toml", text)
    with pytest.raises(SettingsError) as refused:
        load(environ={})
    assert complaint in refused.value.message


def test_unreadable_settings_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for file in (tmp_path / "bytes.toml", tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(SettingsError, match=file.name):
            load(environ={}, file=file)


@given(
    st.dictionaries(
        st.sampled_from(Settings.__struct_fields__),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.just([])),
        max_size=4,
    )
)
def test_any_environment_gives_settings_or_an_error(values: dict[str, Any]) -> None:
    with suppress(SettingsError):
        assert isinstance(build_settings(values), Settings)
