"""A service's own theme from a folder: name, logo, colours, styles, templates, languages; clear refusals."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from placet.embed import Placet
from placet.errors import SettingsError
from placet.pages.renderer import PageRenderer
from placet.pages.theme import CONTRASTS, calculate_contrast, read_built_in_colours, read_theme
from placet.settings import build_settings
from tests.server.running import RunningServer, running

EXAMPLE = Path(__file__).parents[2] / "examples" / "theme"
LETTER = {"type": "approval", "prompt": "Send the letter?", "context": {"artifact": "Dear Ada"}}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("library"), theme=str(EXAMPLE)) as server:
        yield server


@pytest.fixture
def owner(library: RunningServer) -> Iterator[httpx.Client]:
    with library.client(library.api_key) as client:
        yield client


def test_pages_wear_the_name_the_logo_and_the_colours(library: RunningServer, owner: httpx.Client) -> None:
    with library.page(library.open(owner, **LETTER)) as page:
        assert "<b>Harbour Library</b>" in page.text
        logo = re.search(r'<img src="([^"]+)" alt="">', page.text)
        style = re.search(r'rel="stylesheet" href="([^"]+)"', page.text)
        assert logo is not None
        assert style is not None
        picture, sheet = page.client.get(logo[1]), page.client.get(style[1])
    assert picture.headers["content-type"] == "image/svg+xml"
    assert "sandbox" in picture.headers["content-security-policy"]
    assert picture.content == (EXAMPLE / "logo.svg").read_bytes()
    light, dark = (f"@media (prefers-color-scheme:{theme}){{:root{{" for theme in ("light", "dark"))
    assert f"{light}--accent:#7a2e1d;--paper:#fffdf9;--on-accent:#ffffff;}}}}" in sheet.text
    assert f"{dark}--accent:#f0b49f;--on-accent:#000000;}}}}" in sheet.text
    assert sheet.text.rstrip().endswith((EXAMPLE / "style.css").read_text().rstrip())


def test_templates_of_the_folder_come_first_and_ours_fill_the_rest(library: RunningServer) -> None:
    with library.client() as stranger:
        message = stranger.get("/review/review_nothing")
    assert "Come to the desk" in message.text
    assert "There is nothing here" in message.text


def test_languages_of_the_folder_override_single_texts(library: RunningServer, owner: httpx.Client) -> None:
    hitl = library.open(owner, **LETTER)
    with library.client(follow_redirects=True) as reader:
        page = reader.get(hitl["review_url"], headers={"Accept-Language": "de-AT"})
    assert page.headers["content-language"] == "de"
    assert "Passt so" in page.text
    assert "Ablehnen" in page.text


def test_an_embedded_placet_wears_it_too() -> None:
    placet = Placet(base_url="https://library.example", theme=str(EXAMPLE))
    assert placet.settings.theme == str(EXAMPLE)
    with pytest.raises(SettingsError, match="not a folder"):
        Placet(base_url="https://library.example", theme="no/such/folder")


def test_an_empty_folder_changes_nothing(tmp_path: Path) -> None:
    theme = read_theme(tmp_path)
    assert (theme.name, theme.logo, theme.templates) == (None, None, None)


def write_theme_file(folder: Path, name: str, text: str) -> None:
    (folder / name).parent.mkdir()
    (folder / name).write_text(text)


WRONG: dict[str, tuple[Callable[[Path], object], str]] = {
    "no toml": (lambda at: (at / "theme.toml").write_text("name ="), "not valid TOML"),
    "not text": (lambda at: (at / "theme.toml").write_bytes(b"name = '\xff'"), "not valid TOML"),
    "unknown key": (lambda at: (at / "theme.toml").write_text("title = 'x'"), "unknown setting 'title'"),
    "long name": (lambda at: (at / "theme.toml").write_text(f"name = '{'x' * 81}'"), "1 to 80 characters"),
    "number for a name": (lambda at: (at / "theme.toml").write_text("name = 7"), "1 to 80 characters"),
    "no table": (lambda at: (at / "theme.toml").write_text("light = 'red'"), "table of colours"),
    "unknown colour": (
        lambda at: (at / "theme.toml").write_text("[light]\nlink = '#000000'"),
        "no colour 'link'",
    ),
    "no hex": (lambda at: (at / "theme.toml").write_text("[dark]\naccent = 'red'"), "such as #1d5c42"),
    "pale accent": (lambda at: (at / "theme.toml").write_text("[light]\naccent = '#88bb99'"), "contrast of"),
    "pale ink": (lambda at: (at / "theme.toml").write_text("[dark]\nink = '#555555'"), "dark.ink on paper"),
    "two logos": (
        lambda at: [(at / name).write_bytes(b"x") for name in ("logo.svg", "logo.png")],
        "two logos",
    ),
    "heavy logo": (lambda at: (at / "logo.png").write_bytes(b"x" * 70_000), "larger than 65536 bytes"),
    "broken template": (
        lambda at: write_theme_file(at, "templates/home.html", "{% if %}"),
        "home.html cannot be used",
    ),
    "odd language": (
        lambda at: write_theme_file(at, "languages/klingon.po", ""),
        "klingon",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_theme_is_refused_at_the_start_by_name(tmp_path: Path, wrong: str) -> None:
    spoil, complaint = WRONG[wrong]
    spoil(tmp_path)
    with pytest.raises(SettingsError, match=re.escape(complaint)):
        build_settings({"theme": str(tmp_path)})


@pytest.mark.parametrize(
    ("template", "complaint"),
    [
        ("{{ t('Hello')|shout }}", "No filter named 'shout'"),
        ("{% extends 'frame.html' %}", "no template 'frame.html'"),
        ("{% include ['a.html', 'b.html'] ignore missing %}{{ 1 is lovely }}", "No test named 'lovely'"),
    ],
)
def test_a_template_that_could_never_be_shown_is_refused_at_the_start(
    tmp_path: Path, template: str, complaint: str
) -> None:
    write_theme_file(tmp_path, "templates/message.html", template)
    with pytest.raises(SettingsError, match=re.escape(complaint)):
        PageRenderer(theme=read_theme(tmp_path))


def test_a_template_that_fails_on_a_page_is_told_in_words_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_theme_file(tmp_path, "templates/closed.html", "{{ nowhere }}")
    with running(tmp_path, theme=str(tmp_path)) as server, server.client(server.api_key) as client:
        hitl = server.open(client)
        with server.page(hitl) as page:
            broken = page.post("respond", {"action": "confirm"})
            assert broken.response.status_code == 500
            assert "Something went wrong on our side" in broken.text
            assert f'class="step goes" href="/review/{hitl["case_id"]}"' in broken.text
        assert client.get(hitl["poll_url"]).json()["status"] == "completed"
    assert "'nowhere' is undefined" in caplog.text


def test_our_own_colours_can_be_read_by_everyone() -> None:
    for colours in read_built_in_colours().values():
        for ink, ground, least in CONTRASTS:
            assert calculate_contrast(colours[ink], colours[ground]) >= least, (ink, ground)
