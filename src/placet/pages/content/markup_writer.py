"""Write foreign text as markup: escaped, with hidden characters marked visibly and for screen readers."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator

from markupsafe import Markup, escape

from placet.pages.content import links
from placet.pages.content.deferred_markup import PIECE_SIZE, DeferredMarkup, Draw, split_lines, split_text
from placet.pages.language import Language
from placet.text.characters import MAX_NUMBERED, OPEN, describe_hidden, mark_hidden

SHOWN_LINES = 40
SHOWN_CHARACTERS = 4000
# A text is folded only if much more follows than is shown before the fold.
FOLDED_LINES = 60
FOLDED_CHARACTERS = 6000

_MARK = re.compile("\u27e6U\\+([0-9A-F]{4,6})\u27e7")


def split_long_text(text: str) -> tuple[str, str]:
    """Split a long text into what is shown at once and what is shown on demand."""
    if len(text) <= FOLDED_CHARACTERS and text.count("\n") <= FOLDED_LINES:
        return text, ""
    end = -1
    for _ in range(SHOWN_LINES):
        end = text.find("\n", end + 1)
        if end < 0 or end > SHOWN_CHARACTERS:
            break
    if not 0 <= end <= SHOWN_CHARACTERS:
        end = _find_last_break(text, SHOWN_CHARACTERS)
    return text[:end], text[end:].removeprefix("\n")


def _find_last_break(text: str, characters: int) -> int:
    """Return a position between words, near the end of the first characters."""
    for sign in ("\n", " "):
        found = text.rfind(sign, characters // 2, characters)
        if found > 0:
            return found
    return characters


def as_markup(text: str) -> Markup:
    """Mark a text as markup; every value in it was escaped when it was written."""
    return Markup(text)  # noqa: S704


class MarkupWriter:
    """Writes texts as markup in one language."""

    def __init__(self, language: Language) -> None:
        self._language = language
        self._later: DeferredMarkup | None = None

    def iterate_pieces(self, draw: Callable[[], str]) -> Iterator[Markup]:
        """Yield what `draw` returns in pieces; long parts are rendered only when they are requested."""
        later = self._later = DeferredMarkup()
        try:
            markup = draw()
        finally:
            self._later = None
        return map(as_markup, later.fill(markup))

    def render_later(self, draw: Draw) -> str:
        """Render something long: now, or later inside `in_pieces`."""
        return "".join(draw()) if self._later is None else self._later.defer(draw)

    def write_long_text(self, text: str) -> str:
        """Return a text of any length as markup."""
        return (
            self.write_text(text)
            if len(text) <= PIECE_SIZE
            else self.render_later(lambda: self.write_texts(split_text(text, PIECE_SIZE)))
        )

    def write_texts(self, texts: Iterable[str]) -> Iterator[str]:
        """Yield consecutive texts as markup that share one limit of numbered marks."""
        numbered = MAX_NUMBERED
        for text in texts:
            shown = self.write_text(text, numbered)
            numbered -= shown.count(OPEN)
            yield shown

    def write_many_lines(self, text: str, draw: Callable[[str], str]) -> str:
        """Return any number of lines, rendered by `draw`."""
        if len(text) <= PIECE_SIZE:
            return draw(text)
        return self.render_later(
            lambda: (
                "\n" * (number > 0) + draw(lines)
                for number, lines in enumerate(split_lines(text, PIECE_SIZE))
            )
        )

    def write_text(self, text: str, numbered: int = MAX_NUMBERED) -> str:
        """Return a text as markup with hidden characters marked; `numbered` of them with their code point."""
        shown = mark_hidden(text, numbered)
        markup = str(escape(shown))
        return _MARK.sub(self._mark, markup) if shown is not text and "\u27e6" in markup else markup

    def write_inline(self, text: str) -> str:
        """Return a text for use inside a sentence, with its direction isolated."""
        return f"<bdi>{self.write_text(text)}</bdi>"

    def write_lines(self, text: str) -> str:
        """Return a text with its line breaks; a long one is folded."""
        head, rest = split_long_text(text)
        shown = f'<div class="lines" dir="auto">{self.write_text(head)}</div>'
        if not rest:
            return shown
        return shown + self.write_fold(
            self.write_fold_summary(text), f'<div class="lines" dir="auto">{self.write_long_text(rest)}</div>'
        )

    def write_fold_summary(self, text: str) -> str:
        """Return the summary of a fold: how many lines or characters there are."""
        count = text.count("\n") + (not text.endswith("\n"))
        if count > FOLDED_LINES // 2:
            return self.tn("Show the one line", "Show all {count} lines", count)
        return self.tn("Show the one character", "Show all {count} characters", len(text))

    def t(self, text: str, /, **parts: object) -> str:
        """Return a translated text as markup."""
        return str(escape(self._language.t(text, **parts)))

    def tn(self, one: str, many: str, count: int) -> str:
        """Return a translated text for a count as markup."""
        return str(escape(self._language.tn(one, many, count)))

    def write_list(self, *parts: str) -> str:
        """Return several parts as a list in a sentence; all of them are markup."""
        return self._language.listing(parts)

    def write_link_warnings(self, text: str) -> str:
        """Return the warnings about the URLs in a text as markup."""
        return "".join(
            f' <small class="link-warning">{self.write_message(warning)}</small>'
            for warning in links.find_warnings(text)
        )

    def write_message(self, message: str) -> str:
        """Return a translated message as markup."""
        return str(escape(self._language.say(message)))

    def write_fold(self, summary: str, inside: str, css: str = "fold") -> str:
        """Return a fold that opens on demand; `summary` and `inside` are markup."""
        return f'<details class="{css}"><summary>{summary}</summary>{inside}</details>'

    def write_scrolling_text(self, inside: str, name: str, css: str = "") -> str:
        """Return preformatted text that scrolls sideways, also by keyboard."""
        return f'<pre class="code{css}" tabindex="0" role="group" aria-label="{name}">\n{inside}</pre>'

    def _mark(self, found: re.Match[str]) -> str:
        point = int(found[1], 16)
        kind = describe_hidden(chr(point)) if point <= sys.maxunicode else "{code}"
        spoken = self.t(kind, code=f"U+{found[1]}")
        return f'<span class="mark" role="img" aria-label="{spoken}">{found[0]}</span>'
