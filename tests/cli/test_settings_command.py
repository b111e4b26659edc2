"""`assent settings`: what is in force, and who said so."""

from pathlib import Path

import msgspec
import pytest

from tests.cli.process import assent


def test_each_setting_is_shown_with_where_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "assent.toml").write_text('service_name = "Parcel Desk"\nport = 8500\nretention = "10d"\n')
    env = {"ASSENT_PORT": "8600", "ASSENT_LOG_REQUESTS": "true", "ASSENT_SOMETHING_ELSE": "ignored"}
    run = assent(tmp_path, "settings", "--json", "--db", "mine.db", "--port", "8700", env=env)
    shown = msgspec.json.decode(run.stdout)
    assert shown["service_name"] == {"value": "Parcel Desk", "origin": "file assent.toml"}
    assert shown["log_requests"] == {"value": True, "origin": "environment ASSENT_LOG_REQUESTS"}
    assert shown["port"] == {"value": 8700, "origin": "flag"}
    assert shown["db"] == {"value": "mine.db", "origin": "flag"}
    assert shown["signing"] == {"value": "ES256", "origin": "default"}


def test_what_is_printed_is_a_settings_file_that_says_the_same(tmp_path: Path) -> None:
    printed = assent(tmp_path, "settings", "--port", "9000", "--log-style", "text").stdout
    (tmp_path / "copy.toml").write_text(printed)
    first = assent(tmp_path, "settings", "--json", "--port", "9000", "--log-style", "text")
    again = assent(tmp_path, "settings", "--json", "--config", "copy.toml")
    values = [
        {name: one["value"] for name, one in msgspec.json.decode(run.stdout).items()}
        for run in (first, again)
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("file", "env", "complaint"),
    [
        ("prot = 8400", {}, "file assent.toml: there is no setting 'prot'. Did you mean 'port'?"),
        ("[relay.agents.a]\nurll = 'x'", {}, "unknown field `urll` (from file assent.toml)."),
        ("port = ", {}, "assent.toml is not valid TOML"),
        ('port = "many"', {}, "port does not fit: Expected `int`, got `str` (from file assent.toml)."),
        ("", {"ASSENT_PORT": "tcp://10.0.0.1:80"}, "(from environment ASSENT_PORT)."),
        ("", {"ASSENT_SIGNING": "HS256"}, "signing does not fit: Invalid enum value 'HS256'"),
        ("", {"ASSENT_SIGNING": "HS256"}, "; it is one of ES256, RS256, EdDSA, none (from environment"),
        ("", {"ASSENT_RETENTION": "soon"}, "retention: "),
        ("", {"ASSENT_MAX_TIMEOUT": "1h"}, "default_timeout is longer than max_timeout."),
        ("", {"ASSENT_POLLS_PER_MINUTE": "-1"}, "polls_per_minute does not fit"),
        ("", {"ASSENT_CONFIG": "elsewhere.toml"}, "elsewhere.toml cannot be read: No such file"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_by_name_and_origin(
    tmp_path: Path, file: str, env: dict[str, str], complaint: str
) -> None:
    (tmp_path / "assent.toml").write_text(file)
    run = assent(tmp_path, "settings", env=env)
    assert run.returncode == 1
    assert complaint in run.stderr
    assert run.stderr.startswith("assent: ")
    assert "Traceback" not in run.stderr
