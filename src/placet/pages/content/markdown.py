"""Render Markdown: its HTML is escaped, nothing remote is loaded, and links show their host."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, cast

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore, inline, text_join
from markdown_it.token import Token
from markupsafe import escape

from placet.pages.content import images, links
from placet.pages.content.deferred_markup import Draw
from placet.pages.content.markup_writer import MarkupWriter, as_markup

MAX_MARKDOWN_LENGTH = 40_000
MAX_LINES = 1500
# Each of these characters may start a search through the rest of its paragraph.
MAX_BRACKETS = 1000
MAX_MARKUP_SIGNS = 5000
MAX_DEPTH = 16
TOP_HEADING = 3
MAX_HEADING_LEVEL = 6
CACHE_SIZE = 32


class LinkMarkup(Protocol):
    """Renders a link that shows its host."""

    def link(self, address: str) -> str: ...


class Markdown:
    """Renders Markdown in one language; the latest documents are cached."""

    def __init__(self, writing: MarkupWriter, drawn: LinkMarkup) -> None:
        self._writing = writing
        self._links = drawn
        self._parser = _create_parser()
        for rule in (
            *("text", "code_inline", "code_block", "fence", "image", "link_open", "link_close"),
            *("heading_open", "heading_close", "table_open", "table_close", "th_open", "td_open"),
        ):
            cast(RendererHTML, self._parser.renderer).rules[rule] = getattr(self, f"_render_{rule}")
        self._drawn: OrderedDict[str, str] = OrderedDict()

    def draw(self, text: str) -> Draw | None:
        """Return a function that yields the markup by blocks; None if the text is too large or empty."""
        if text in self._drawn:
            return lambda: (self._drawn[text],)
        if not _is_modest(text):
            return None
        env: dict[str, Any] = {"last": TOP_HEADING - 1, "links": []}
        tokens = self._parser.parse(text, env)
        if any(token.level >= MAX_DEPTH for token in tokens):
            return None
        if not any(token.type in ("inline", "fence", "code_block") and token.content for token in tokens):
            return None
        tops = [int(token.tag[1]) for token in tokens if token.type == "heading_open"]
        env["top"] = min(tops, default=1)
        return lambda: self._cache_parts(text, self._render_blocks(tokens, env))

    def _render_blocks(self, tokens: Sequence[Token], env: dict[str, Any]) -> Iterator[str]:
        """Yield each block; empty strings between its lines let other requests run."""
        block: list[Token] = []
        for token in tokens:
            block.append(token)
            if token.type == "inline":
                line = StateCore("", self._parser, env, [token])
                inline(line)
                text_join(line)
                yield ""
            if token.level == 0 and token.nesting <= 0:
                yield self._parser.renderer.render(block, self._parser.options, env)
                block = []

    def _cache_parts(self, text: str, parts: Iterator[str]) -> Iterator[str]:
        drawn = []
        for part in parts:
            drawn.append(part)
            yield part
        self._drawn[text] = "".join(drawn)
        if len(self._drawn) > CACHE_SIZE:
            self._drawn.popitem(last=False)

    # The parser's renderer calls each rule with tokens, position, options and environment.

    def _render_text(self, tokens: Sequence[Token], position: int, *_: Any) -> str:
        text = tokens[position].content
        inside_link = position > 0 and tokens[position - 1].type == "link_open"
        return self._writing.write_text(text) + (
            "" if inside_link else self._writing.write_link_warnings(text)
        )

    def _render_code_inline(self, tokens: Sequence[Token], position: int, *_: Any) -> str:
        return f"<code>{self._writing.write_text(tokens[position].content)}</code>"

    def _render_code_block(self, tokens: Sequence[Token], position: int, *_: Any) -> str:
        return self._writing.write_scrolling_text(
            self._writing.write_text(tokens[position].content.rstrip("\n")), self._writing.t("Code")
        )

    _render_fence = _render_code_block

    def _render_image(self, tokens: Sequence[Token], position: int, *_: Any) -> str:
        address, alt = str(tokens[position].attrs.get("src", "")), tokens[position].content
        name = str(escape(alt)) if alt.strip() else self._writing.t("Image")
        shown = images.render_picture(address, name)
        if shown:
            return shown
        where = self._links.link(address) if links.is_link(address) else self._writing.write_text(address)
        said = self._writing.t("Image not shown here: {what}", what=as_markup(f"{name} {where}"))
        return f'<span class="elsewhere">{said}</span>'

    def _render_link_open(
        self, tokens: Sequence[Token], position: int, options: Any, env: dict[str, Any]
    ) -> str:
        address = str(tokens[position].attrs.get("href", ""))
        inside = _list_tokens_in_link(tokens, position)
        env["links"].append((address, "".join(token.content for token in inside)))
        return f'<a href="{escape(address)}" {links.REL}>' if links.is_link(address) else ""

    def _render_link_close(
        self, tokens: Sequence[Token], position: int, options: Any, env: dict[str, Any]
    ) -> str:
        address, text = env["links"].pop()
        if not links.is_link(address):
            shown = self._writing.write_inline(address)
            return f' <small class="host">({shown})</small>{self._write_warnings(address)}'
        host = links.find_host(address)
        host_note = "" if links.find_host(text) == host else f' <small class="host">({escape(host)})</small>'
        return f"</a>{host_note}{self._write_warnings(address, text)}"

    def _write_warnings(self, address: str, text: str = "") -> str:
        said = [
            warning
            for warning in (links.find_warning(address), links.find_disguise(text, address))
            if warning
        ]
        return "".join(
            f' <small class="link-warning">{self._writing.write_message(warning)}</small>' for warning in said
        )

    def _render_heading_open(
        self, tokens: Sequence[Token], position: int, options: Any, env: dict[str, Any]
    ) -> str:
        wanted = TOP_HEADING + int(tokens[position].tag[1]) - env["top"]
        env["last"] = min(wanted, env["last"] + 1, MAX_HEADING_LEVEL)
        return f'<h{env["last"]} dir="auto">'

    def _render_heading_close(
        self, tokens: Sequence[Token], position: int, options: Any, env: dict[str, Any]
    ) -> str:
        return f"</h{env['last']}>\n"

    def _render_table_open(self, tokens: Sequence[Token], position: int, *_: Any) -> str:
        name = self._writing.t("Table")
        return f'<div class="scroll" tabindex="0" role="group" aria-label="{name}"><table>'

    def _render_table_close(self, tokens: Sequence[Token], position: int, *_: Any) -> str:
        return "</table></div>\n"

    def _render_th_open(self, tokens: Sequence[Token], position: int, *_: Any) -> str:
        return f'<th scope="col"{_render_alignment(tokens[position])}>'

    def _render_td_open(self, tokens: Sequence[Token], position: int, *_: Any) -> str:
        return f"<td{_render_alignment(tokens[position])}>"


def _create_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "xhtmlOut": False, "linkify": False})
    parser.enable(["table", "strikethrough"])
    parser.disable(["inline", "text_join"])  # _render_blocks runs these for each block
    # Links are checked when they are rendered, as written.
    parser.validateLink = lambda url: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    parser.normalizeLinkText = lambda link: link  # type: ignore[method-assign]
    return parser


def _is_modest(text: str) -> bool:
    return (
        len(text) <= MAX_MARKDOWN_LENGTH
        and text.count("\n") <= MAX_LINES
        and text.count("[") + text.count("]") <= MAX_BRACKETS
        and sum(map(text.count, "*_`~|<&\\")) <= MAX_MARKUP_SIGNS
    )


def _list_tokens_in_link(tokens: Sequence[Token], position: int) -> list[Token]:
    inside = []
    for token in tokens[position + 1 :]:
        if token.type == "link_close":
            break
        inside.append(token)
    return inside


def _render_alignment(token: Token) -> str:
    """Return the class of right-aligned cells; the page's CSP forbids inline styles."""
    return ' class="number"' if "right" in str(token.attrs.get("style", "")) else ""
