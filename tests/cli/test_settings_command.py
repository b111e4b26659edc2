"""`placet settings`: the effective settings and their origins."""

from pathlib import Path

import msgspec
import pytest

from tests.cli.process import placet


def test_each_setting_is_shown_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "placet.toml").write_text('service_name = "Parcel Desk"\nport = 8500\nretention = "10d"\n')
    env = {"PLACET_PORT": "8600", "PLACET_LOG_REQUESTS": "true"}
    run = placet(tmp_path, "settings", "--json", "--db", "mine.db", "--port", "8700", env=env)
    shown = msgspec.json.decode(run.stdout)
    assert shown["service_name"] == {"value": "Parcel Desk", "origin": "file placet.toml"}
    assert shown["log_requests"] == {"value": True, "origin": "environment PLACET_LOG_REQUESTS"}
    assert shown["port"] == {"value": 8700, "origin": "flag"}
    assert shown["db"] == {"value": "mine.db", "origin": "flag"}
    assert shown["signing"] == {"value": "ES256", "origin": "default"}


def test_output_is_a_settings_file_with_the_same_values(tmp_path: Path) -> None:
    printed = placet(tmp_path, "settings", "--port", "9000", "--log-style", "text").stdout
    (tmp_path / "copy.toml").write_text(printed)
    first = placet(tmp_path, "settings", "--json", "--port", "9000", "--log-style", "text")
    again = placet(tmp_path, "settings", "--json", "--config", "copy.toml")
    values = [
        {name: one["value"] for name, one in msgspec.json.decode(run.stdout).items()}
        for run in (first, again)
    ]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    ("file", "env", "complaint"),
    [
        ("prot = 8400", {}, "file placet.toml: unknown setting 'prot'. Did you mean 'port'?"),
        (
            "[relay.agents.a]\nurll = 'x'",
            {},
            "unknown field `urll` (did you mean `url`?) (from file placet.toml).",
        ),
        ("port = ", {}, "placet.toml is not valid TOML"),
        ('port = "many"', {}, "port is not valid: Expected `int`, got `str` (from file placet.toml)."),
        ("", {"PLACET_PORT": "10.0.0.1:80"}, "(from environment PLACET_PORT)."),
        ("", {"PLACET_SIGNING": "HS256"}, "signing is not valid: Invalid enum value 'HS256'"),
        ("", {"PLACET_SIGNING": "HS256"}, "; use one of ES256, RS256, EdDSA, none (from environment"),
        ("", {"PLACET_RETENTION": "soon"}, "retention: "),
        ("", {"PLACET_MAX_TIMEOUT": "1h"}, "default_timeout is longer than max_timeout. Change one of them."),
        ("", {"PLACET_POLLS_PER_MINUTE": "-1"}, "polls_per_minute is not valid"),
        ("", {"PLACET_CONFIG": "elsewhere.toml"}, "elsewhere.toml cannot be read: No such file"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_by_name_and_origin(
    tmp_path: Path, file: str, env: dict[str, str], complaint: str
) -> None:
    (tmp_path / "placet.toml").write_text(file)
    run = placet(tmp_path, "settings", env=env)
    assert run.returncode == 1
    assert complaint in run.stderr
    assert run.stderr.startswith("placet: ")
    assert "Traceback" not in run.stderr
