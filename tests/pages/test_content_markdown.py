"""Markdown is shown as its author meant it, without anything that could reach outside or mislead."""

import pytest

from placet.pages.content import ValueRenderer
from placet.pages.content.markdown import MAX_MARKDOWN_LENGTH
from placet.pages.language import ENGLISH
from tests.pages.bodies import IMAGE
from tests.pages.markup import Markup
from tests.pages.payloads import PAYLOADS

VALUES = ValueRenderer(ENGLISH)


def shown(text: str) -> Markup:
    return Markup(str(VALUES.show({"format": "markdown", "content": text})))


def test_markdown_is_rendered_below_the_headings_of_the_page() -> None:
    page = shown("# One\n\n### Two\n\n# Three\n\nSome *soft* and **strong** `code`.\n\n1. a\n2. b\n\n> quote")
    tags = [tag for tag, _ in page.tags]
    assert [tag for tag in tags if tag[0] == "h"] == ["h3", "h4", "h3"]
    assert {"em", "strong", "code", "ol", "blockquote"} <= set(tags)


def test_a_document_that_starts_with_a_lower_heading_starts_as_high_as_any() -> None:
    assert [tag for tag, _ in shown("## One\n\n### Two").tags if tag[0] == "h"] == ["h3", "h4"]


def test_what_was_written_is_one_press_away() -> None:
    text = "[a]: https://example.com 'hidden title'\n\nSee [a]."
    page = shown(text)
    assert "hidden title" in page.text
    assert "As it was written" in page.text


@pytest.mark.parametrize("payload", PAYLOADS, ids=range(len(PAYLOADS)))
def test_html_in_markdown_stays_text(payload: str) -> None:
    for text in (
        payload,
        f"# {payload}",
        f"[x]({payload})",
        f"![{payload}](<{payload}>)",
        f"```{payload}\nx",
    ):
        page = shown(text)
        assert page.problems == []
        assert not {"script", "iframe", "style", "form", "base", "meta", "svg"} & {
            tag for tag, _ in page.tags
        }
        assert all(str(link["href"]).startswith("https://") for link in page.all("a"))


def test_links_tell_their_host_and_what_is_odd() -> None:
    page = shown("[apple.com](https://evil.example) [b](https://xn--pple-43d.com/) [c](http://plain.example)")
    assert "(evil.example)" in page.text
    assert "The text names apple.com, but the link leads to evil.example." in page.text
    assert "imitates letters of another script" in page.text
    assert "(http://plain.example)" in page.text
    assert [link["href"] for link in page.all("a")] == ["https://evil.example", "https://xn--pple-43d.com/"]
    assert all(link["referrerpolicy"] == "no-referrer" for link in page.all("a"))


def test_only_pictures_of_the_page_itself_are_shown() -> None:
    page = shown(
        f"![dot]({IMAGE}) ![own](/media/a.png) ![far](https://cdn.example/a.png) ![odd](//cdn.example/a)"
    )
    assert [(image["src"], image["alt"]) for image in page.all("img")] == [
        (IMAGE, "dot"),
        ("/media/a.png", "own"),
    ]
    assert page.text.count("Image not shown here:") == 2
    assert "https://cdn.example/a.png" in page.text


def test_tables_and_code_scroll_by_keyboard() -> None:
    page = shown("|a|b|\n|-|-:|\n|x|1|\n\n```python\nprint()\n```")
    scrolling = [attributes for _, attributes in page.tags if attributes.get("tabindex") == "0"]
    assert len(scrolling) == 3  # with what was written
    assert all(attributes.get("role") and attributes.get("aria-label") for attributes in scrolling)
    assert not any("style" in attributes for _, attributes in page.tags)


@pytest.mark.parametrize(
    "text",
    [
        "word " * (MAX_MARKDOWN_LENGTH // 4),
        "> " * 60 + "bottom",
        "[x]: https://example.com",
        "- " * 40 + "bottom",
    ],
)
def test_what_would_not_be_shown_whole_is_shown_as_it_was_written(text: str) -> None:
    page = shown(text)
    assert "Markdown, shown as it was written" in page.text
    assert text.strip()[-20:] in page.text


def test_markdown_is_taken_for_markdown_only_where_that_is_said() -> None:
    text = "# Not a heading\n\n*stars*"
    for value in (
        text,
        {"note": text},
        {"type": "email", "content": text},
        {"format": "plain", "body": text},
    ):
        assert "*stars*" in Markup(str(VALUES.show(value))).text.split("As it was")[0]
    for told in (
        {"readme.md": text},
        {"body_markdown": text},
        {"mime_type": "text/markdown; charset=utf-8", "body": text},
        {"filename": "post.md", "content": text},
        {"type": "markdown", "text": text},
        {"body_format": "md", "body": text},
    ):
        assert Markup(str(VALUES.show(told))).all("em"), told
