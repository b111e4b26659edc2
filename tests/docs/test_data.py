"""JSON and TOML in the docs: sound, and taken by a real server where they are meant for one."""

import json
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

from assent.pages.look import read_look
from assent.settings import Settings, settings_from
from tests.docs.markdown import PAGES, blocks, named

SHOWN = [(page, json.loads(text)) for page in PAGES for text in blocks(page, "json")]
DRAFTS = [(page, shown) for page, shown in SHOWN if {"type", "prompt"} <= shown.keys()]
TOML = [(page, text) for page in PAGES for text in blocks(page, "toml")]
LOOKS = [(page, text) for page, text in TOML if page.name == "look.md"]
SETTINGS = [(page, text) for page, text in TOML if page.name != "look.md"]


def ids(found: list[tuple[Path, Any]]) -> list[str]:
    return [f"{named(page)}-{number}" for number, (page, _) in enumerate(found)]


@pytest.mark.parametrize(("page", "draft"), DRAFTS, ids=ids(DRAFTS))
def test_a_question_shown_in_the_docs_can_be_asked(page: Path, draft: dict[str, Any], live_server):
    url, key = live_server
    reply = httpx.post(f"{url}/v1/cases", json=draft, headers={"Authorization": f"Bearer {key}"})
    assert reply.status_code == 202, reply.text


@pytest.mark.parametrize(("page", "text"), SETTINGS, ids=ids(SETTINGS))
def test_settings_shown_in_the_docs_are_settings(page: Path, text: str):
    assert isinstance(settings_from(tomllib.loads(text)), Settings)


@pytest.mark.parametrize(("page", "text"), LOOKS, ids=ids(LOOKS))
def test_a_look_shown_in_the_docs_can_be_worn(page: Path, text: str, tmp_path: Path):
    (tmp_path / "look.toml").write_text(text, "utf-8")
    assert read_look(tmp_path).name == tomllib.loads(text)["name"]
