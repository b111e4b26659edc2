"""Code, diffs, JSON, tables, HTML and images are shown as what they are, and nothing of them is lost."""

import json
from base64 import b64encode
from typing import Any

import pytest

from placet.pages.content import ValueRenderer
from placet.pages.content.html_text import extract_text
from placet.pages.content.images import render_picture
from placet.pages.language import ENGLISH
from tests.pages.bodies import IMAGE
from tests.pages.markup import Markup
from tests.pages.test_content_values import draw_artifact

VALUES = ValueRenderer(ENGLISH)
DIFF = "--- a/mail.py\n+++ b/mail.py\n@@ -1,2 +1,3 @@\n same\n-old <b>\n+new\n+more\n"


def shown(value: Any) -> Markup:
    page = Markup(str(VALUES.show(value)))
    assert page.problems == []
    return page


def words(value: Any) -> str:
    return " ".join(shown(value).text.split())


def test_code_has_numbered_lines_and_scrolls_by_keyboard() -> None:
    page = shown({"language": "python", "filename": "a.py", "content": "def f(x):\n    return x < 1\n"})
    listing = page.all("pre")[0]
    assert (listing["tabindex"], listing["role"], listing["aria-label"]) == ("0", "group", "Code")
    assert "numbered" in str(listing["class"])
    assert len([line for line in page.all("span") if not line]) == 2
    assert "    return x < 1" in page.text
    assert "python" in page.text


def test_long_code_opens_on_demand_and_keeps_every_line() -> None:
    text = "\n".join(f"line({number})" for number in range(5000))
    page = shown({"code": text})
    assert "Show all 5000 lines" in page.text
    assert all(f"line({number})" in page.text for number in (0, 40, 41, 4999))


@pytest.mark.parametrize(
    "value", [{"diff": DIFF}, DIFF, {"format": "diff", "content": DIFF}, {"patch": DIFF}]
)
def test_a_diff_says_what_was_added_and_removed(value: Any) -> None:
    page = shown(value)
    assert "2 lines added and 1 line removed" in page.text
    roles = [(line.get("class"), line.get("role")) for line in page.all("span") if line]
    assert roles.count(("added", "insertion")) == 2
    assert roles.count(("removed", "deletion")) == 1
    assert "-old <b>" in page.text


def test_json_in_a_text_is_a_tree_with_its_text_at_hand() -> None:
    text = json.dumps({"limits": {"cpu": "500m"}, "hosts": [{"name": "a", "up": True}, {"name": "b"}]})
    for value in (text, {"format": "json", "content": text}, {"config.json": text}):
        page = shown(value)
        assert "Cpu 500m" in " ".join(page.text.split())
        assert text in page.text
        assert page.all("table")


@pytest.mark.parametrize("text", ["[1]", "{draft}", "{", '{"a": ', "[link](x)", '{"a": 1} and more', "{}"])
def test_what_only_begins_like_json_is_text(text: str) -> None:
    page = shown(text)
    assert text in page.text
    assert not page.all("figure")


def test_a_table_in_text_is_a_table_with_its_text_at_hand() -> None:
    text = 'Item;Count;Since\n"Chair; folding";40;2026-05-01\nTable;8;2026-06-01\n'
    page = shown({"content_type": "text/csv", "content": text})
    assert [head.get("class") for head in page.all("th")] == [None, "number", None]
    assert "Chair; folding" in page.text
    assert "1 May 2026" in page.text
    assert text.strip() in page.text


@pytest.mark.parametrize("text", ["one line", "a,b\n1,2,3\n", "a,a\n1,2\n", 'a,b\n"1,2\n'])
def test_a_table_that_does_not_hold_together_is_text(text: str) -> None:
    page = shown({"csv": text})
    assert not page.all("table")
    assert text.strip() in page.text


def test_html_is_read_but_never_rendered() -> None:
    html = (
        "<head><title>x</title></head><h1>Hello&nbsp;Ada</h1><p>Order <b>4711</b> left.<br>Bye</p>"
        "<ul><li>Lamp<li>Chair</ul><script>evil()</script><!-- note --><img src=x onerror=evil()>"
    )
    page = shown({"subject": "News", "format": "html", "body": html})
    assert {"h1", "script", "img"}.isdisjoint(tag for tag, _ in page.tags)
    assert "Order 4711 left.\nBye" in page.text
    assert html in page.text
    assert "• Lamp" in page.text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("a < b and c > d", "a < b and c > d"),
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("<td>a</td><td>b</td>", "a  b"),
        ("<style>p {}</style>seen", "seen"),
        ("<!-- a <b>hidden</b> -->seen", "seen"),
        ("<!-- never closed <b>x</b>", ""),
        ("&lt;b&gt;", "<b>"),
        ("<b", "<b"),
    ],
)
def test_the_words_of_html(html: str, text: str) -> None:
    assert extract_text(html) == text


def test_html_without_a_word_is_shown_as_it_was_written() -> None:
    assert "<!-- only <b>" in shown({"html": "<!-- only <b>"}).text


def data(kind: str, content: bytes) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"


GIF = b"GIF89a\x02\x00\x03\x00" + b"\x00" * 10
WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x02\x00\x00"
JPEG = b"\xff\xd8\xff\xe0\x00\x04\x00\x00\xff\xc0\x00\x11\x08\x00\x03\x00\x02\x03" + b"\x00" * 10


@pytest.mark.parametrize(
    ("address", "size"),
    [
        (IMAGE, ("1", "1")),
        (data("gif", GIF), ("2", "3")),
        (data("webp", WEBP), ("2", "3")),
        (data("jpeg", JPEG), ("2", "3")),
        ("/media/a.png", (None, None)),
        ("/media/a.JPG?size=2", (None, None)),
    ],
)
def test_pictures_of_plain_formats_are_shown(address: str, size: tuple[str | None, str | None]) -> None:
    image = shown({"title": "A dot & more", "image": address}).all("img")[0]
    assert (image["src"], image["alt"]) == (address, "A dot & more")
    assert (image.get("width"), image.get("height")) == size


@pytest.mark.parametrize(
    "address",
    [
        data("svg+xml", b"<svg onload=alert(1)></svg>"),
        data("png", b"<svg onload=alert(1)></svg>"),
        data("png", GIF),
        data("png", b"\x89PNG\r\n\x1a\n"),
        data("png", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + b"\xff" * 30),
        "data:image/png;base64,###",
        "data:image/png,abc",
        "data:text/html,<script>alert(1)</script>",
        "https://cdn.example/a.png",
        "//cdn.example/a.png",
        "/\\cdn.example/a.png",
        "/\t/cdn.example/a.png",
        "/media/a.svg",
        "/logout",
        "a.png",
        IMAGE + "A" * 1_400_000,
    ],
)
def test_anything_else_is_told_and_not_loaded(address: str) -> None:
    page = shown({"image": address})
    assert page.all("img") == []
    assert address[:30] in page.text
    assert render_picture(address, "x") is None


def test_a_picture_is_named_by_what_is_known_of_it() -> None:
    assert shown({"screenshot": IMAGE}).all("img")[0]["alt"] == "Screenshot"
    assert Markup(draw_artifact(IMAGE, {}, "Press & Co")).all("img")[0]["alt"] == "Image from Press & Co"
    bare = {"mime_type": "image/png", "data": IMAGE.partition(",")[2]}
    assert shown(bare).all("img")[0]["src"] == IMAGE
    assert Markup(str(VALUES.picture(IMAGE, "A <b>"))).all("img")[0]["alt"] == "A <b>"
    assert VALUES.picture("https://cdn.example/a.png", "far") == ""
    assert VALUES.picture(None) == ""


def test_an_artifact_takes_its_kind_from_beside_it() -> None:
    text = "# Head\n\n*soft*"
    for context in (
        {"artifact": text, "artifact_format": "markdown"},
        {"artifact": text, "format": "markdown"},
        {"content": text, "content_type": "text/markdown", "text": "other"},
        {"draft": text, "filename": "post.md"},
    ):
        artifact = next(iter(context.values()))
        assert "<em>soft</em>" in draw_artifact(artifact, context), context
    assert "<em>" not in draw_artifact(text, {"artifact": text})
    assert "nothing" in draw_artifact("", {})


def test_only_the_hints_that_an_artifact_is_shown_by_need_not_be_told() -> None:
    text = "# Title\n\nWords"
    context = {"artifact": text, "format": "markdown", "language": "en", "body": "x", "body_format": "html"}
    assert VALUES.artifact_pieces(text, context)[1] == {"format"}
    assert VALUES.artifact_pieces("no object", {"artifact": "no object", "format": "json"})[1] == set()
    assert (
        VALUES.artifact_pieces({"body": text}, {"artifact": {"body": text}, "format": "markdown"})[1] == set()
    )


def test_two_versions_of_a_text_are_compared() -> None:
    before = "We are sorry for the wait.\nKind regards"
    page = shown({"before": before, "after": before.replace("sorry", "very <b> sorry"), "by": "Ada"})
    assert "What changed" in page.text
    assert len(page.all("ins")) == 1
    assert "added: very <b>" in page.text
    for values in ({"before": "a", "after": "b"}, {"old": before, "new": before}, {"old": before, "new": 3}):
        assert "What changed" not in words(values)


def test_what_is_not_of_the_kind_it_claims_is_text() -> None:
    for kind in ("json", "csv", "diff", "image", "html"):
        assert "plain words" in words({"format": kind, "content": "plain words"})
