"""What stands in a page: tags, labels, texts, taken apart by the standard parser."""

from html.parser import HTMLParser

INLINE = {"a", "b", "bdi", "code", "span", "strong", "time"}
VOID = {"meta", "link", "input", "br", "hr", "img"}


class Markup(HTMLParser):
    """A page taken apart; `problems` says what no page of ours may have."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.problems: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        if self._open:
            self.problems.append(f"unclosed: {self._open}")

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if tag not in INLINE:
            self.text += " "
        self.tags.append((tag, found))
        if len(found) != len(attributes):
            self.problems.append(f"<{tag}> repeats an attribute")
        if tag not in VOID:
            self._open.append(tag)
        if tag == "style" or (tag == "script" and "src" not in found):
            self.problems.append(f"inline <{tag}>")
        for name, value in found.items():
            if name == "style" or name.startswith("on"):
                self.problems.append(f"<{tag} {name}={value!r}>")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.problems.append(f"stray </{tag}>")

    def handle_data(self, data: str) -> None:
        if "template" not in self._open:  # what only a script may show
            self.text += data

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]

    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.tags if "id" in attributes]

    def shapes(self) -> set[tuple[str, str]]:
        return {(tag, name) for tag, attributes in self.tags for name in (*attributes, "")}
