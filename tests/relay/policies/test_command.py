"""`placet policy test`, as a person and a script use it."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from placet.cli.main import cli
from placet.errors import ValidationFailed
from tests.cli.process import placet
from tests.docs.markdown import ROOT, blocks
from tests.relay.policies.samples import build_entity_draft, build_plugin_draft, build_regex_draft

PAGE = ROOT / "docs" / "howto" / "relay-policies.md"


def run(folder: Path, content: str, *words: str, name: str = "p.json", stdin: str = "") -> Result:
    """The command in this process."""
    (folder / name).write_text(content)
    return CliRunner().invoke(cli, ["policy", "test", str(folder / name), *words], input=stdin)


def tried(folder: Path, policies: Any, text: str, *more: str) -> tuple[int, Any]:
    done = run(folder, json.dumps(policies), "--text", text, "--json", *more)
    return done.exit_code, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("action", "outcome", "code"),
    [
        ("LOG", "LOG", 0),
        ("WARN", "WARN", 0),
        ("MASK", "MASK", 10),
        ("HUMAN_REVIEW_REQUIRED", "HOLD", 11),
        ("BLOCK", "BLOCK", 12),
    ],
)
def test_each_outcome_has_its_exit_code(tmp_path: Path, action: str, outcome: str, code: int):
    exited, told = tried(tmp_path, build_regex_draft("secret", action), "a secret", "--leg", "requestToSink")
    assert (exited, told["outcome"]) == (code, outcome)
    (leg,) = told["legs"]
    assert leg["findings"][0]["text"] == "secret"
    assert leg["text"] == ("a [MASKED:REGEX]" if action == "MASK" else "a secret")


def test_a_clean_text_passes_on_every_leg(tmp_path: Path):
    exited, told = tried(tmp_path, {"policies": [build_regex_draft("secret")]}, "nothing")
    assert exited == 0
    assert [leg["outcome"] for leg in told["legs"]] == ["PASS"] * 4


def test_command_evaluates_each_leg_separately(tmp_path: Path):
    _, told = tried(tmp_path, [build_regex_draft("x", legs={"responseToSource": True})], "x")
    assert [leg["outcome"] for leg in told["legs"]] == ["PASS", "PASS", "PASS", "BLOCK"]


def test_the_pages_policies_hold_mask_and_block_as_it_says(tmp_path: Path):
    policies = blocks(PAGE, "toml")[0]
    (tmp_path / "policies.toml").write_text(policies)
    done = placet(tmp_path, "policy", "test", "policies.toml", "--text", "my SSN is 536-22-8764")
    assert done.returncode == 11, done.stderr
    assert "US_SSN 0.85 at 10-21: 536-22-8764" in done.stdout
    for text, said in (
        ("order 536-22-8764", "no match, US_SSN 0.50 is below 0.70 at 6-17: 536-22-8764. One of these words"),
        (
            "my SSN is 123-45-6789",
            "no match, US_SSN 0.00 is below 0.70 at 10-21: 123-45-6789. It is known as a",
        ),
    ):
        done = placet(tmp_path, "policy", "test", "policies.toml", "--text", text)
        assert (done.returncode, said in done.stdout) == (0, True), done.stdout
    without_presidio = tomllib.loads(policies)["policies"][1:]
    for text, code in (
        ("call key-0123456789abcdef", 10),
        ("-----BEGIN RSA PRIVATE KEY-----", 12),
        ("good morning", 0),
    ):
        assert tried(tmp_path, without_presidio, text)[0] == code


@pytest.mark.parametrize("code", [0, 1, 10, 11, 12])
def test_page_lists_every_exit_code(code: int):
    assert PAGE.read_text("utf-8").count(f"| {code} |") == 1


def test_text_from_standard_input_is_shown_without_control_characters(tmp_path: Path):
    done = run(tmp_path, json.dumps(build_regex_draft(".+", "BLOCK")), "--text", "-", stdin="\x1b[31mred")
    assert done.exit_code == 12
    assert "\x1b" not in done.stdout
    assert "red" in done.stdout


def test_unchecked_policy_is_reported(tmp_path: Path):
    policies = [build_regex_draft("(?=(a+)+$)b?a", "LOG", name="Slow")]
    done = run(tmp_path, json.dumps(policies), "--text", "a" * 3_000 + "b", "--leg", "requestToSink")
    assert done.exit_code == 11
    assert "Slow: could not be checked, " in done.stdout


WRONG = [
    ("{", "is not valid JSON"),
    ("[]", "contains no policies"),
    (json.dumps([{"name": "x"}]), "policies[0]: `config` is missing"),
    (json.dumps([build_regex_draft("x"), build_regex_draft("(")]), "policies[1].config.pattern.regex"),
    (json.dumps(build_entity_draft("PERSON")), "PERSON is found only with a language model"),
    (json.dumps(build_entity_draft("US_SSN", engine="COMPREHEND")), "not an entity type of Comprehend"),
    (json.dumps(build_plugin_draft("x-nobody")), "no detector for x-nobody"),
]


@pytest.mark.parametrize(("content", "said"), WRONG)
def test_a_file_that_is_not_sound_is_refused_with_what_is_wrong(tmp_path: Path, content: str, said: str):
    done = run(tmp_path, content, "--text", "x")
    assert isinstance(done.exception, ValidationFailed)
    assert said in done.exception.message


def test_invalid_toml_is_reported(tmp_path: Path):
    done = run(tmp_path, "= 1", "--text", "x", name="p.toml")
    assert isinstance(done.exception, ValidationFailed)
    assert "is not valid TOML" in done.exception.message


def test_missing_file_gives_a_one_line_error(tmp_path: Path):
    done = placet(tmp_path, "policy", "test", "gone.json", "--text", "x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "placet: gone.json cannot be read: No such file or directory.\n"


def test_policy_of_the_page_about_unreadable_text_holds_it(tmp_path: Path):
    policies = tomllib.loads(blocks(PAGE, "toml")[2])["policies"]
    assert tried(tmp_path, policies, "it is ⠎⠑⠉⠗⠑⠞")[0] == 11
    assert tried(tmp_path, policies, "it is ｓｅｃｒｅｔ")[0] == 0


def test_streaming_mode_of_the_page_is_valid(tmp_path: Path):
    policy = blocks(PAGE, "toml")[1]
    assert tried(tmp_path, tomllib.loads(policy)["policies"], "order A-12345678")[0] == 10
    done = run(tmp_path, json.dumps(build_regex_draft("x", streaming="sometimes")), "--text", "x")
    assert isinstance(done.exception, ValidationFailed)
    assert done.exception.message == "policies[0].streaming: use one of observe, whole, window."
