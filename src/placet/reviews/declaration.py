"""What a review type declares about itself, as data.

Everything that pages, messengers, the command line, MCP, and agents need to know about a type is here, so
that none of them names a type. Declarations import nothing of the server: an agent process reads them, too.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from msgspec import Struct

from placet.protocol.review_types import STANDARD_ACTIONS
from placet.text.characters import keep_letters
from placet.text.shared_wording import OPEN_REVIEW

Tone = Literal["positive", "destructive", "neutral"]
ValueKind = Literal[
    "text",
    "text_or_file",
    "text_or_json",
    "json_object",
    "entries",
    "values",
    "form_field",
    "integer",
    "flag",
]
"""How the command line reads the value of an option."""


class ActionDeclaration(Struct, frozen=True, kw_only=True):
    """One action: its texts and its meaning."""

    name: str
    label: str
    """The label of its button on the page."""
    answered: str
    """The heading after this answer."""
    afterwards: str
    """What happens next, on the page after the answer."""
    guidance: str
    """What an assistant should do after this answer."""
    messenger_label: str = ""
    """The label of its button in a messenger, if it differs from the page."""
    is_affirmative: bool = False
    """Whether it is a yes: the agent may go on. A rejection and a request for changes are not."""
    is_ambiguous: bool = False
    """Whether a custom type may use the word for a no."""
    is_inline: bool = False
    """Whether one button press can be the complete answer."""
    tone: Tone = "neutral"
    icon: str = "other"
    """The name of the icon on its button, from `pages/templates/icons.html`."""


class OutcomeDeclaration(Struct, frozen=True, kw_only=True):
    """An outcome whose texts differ from those of its action."""

    name: str
    answered: str
    afterwards: str


class CommandOption(Struct, frozen=True, kw_only=True):
    """One option of `placet ask TYPE`."""

    flag: str
    argument: str
    """The argument of `build_context` that receives the value."""
    help: str
    metavar: str | None = None
    value: ValueKind = "text"
    multiple: bool = False
    required: bool = False
    minimum: int | None = None
    title_key: str = "title"
    """The key in the context for the title of an entry ID=TITLE."""


class CommandDeclaration(Struct, frozen=True, kw_only=True):
    """The command `placet ask TYPE`."""

    help: str
    options: tuple[CommandOption, ...]
    build_context: Callable[..., dict[str, Any]]
    """Builds the context from the option values; raises ValueError with a message if they conflict."""


class TypeDeclaration(Struct, frozen=True, kw_only=True):
    """One review type, or a variant of a type that has its own page."""

    name: str
    """The name inside Placet. The same as `type`, except for variants."""
    type: str
    """The type on the wire."""
    package: str
    title: str
    actions: tuple[ActionDeclaration, ...]
    example: Mapping[str, Any]
    """The body that opens a sample case."""
    question: str = ""
    """The line above the question, with `{service}` for the name of the service."""
    if_answered: tuple[str, str] | None = None
    """A heading and a sentence about the effect of an answer."""
    link_label: str = OPEN_REVIEW
    """The label of the button with the review link in a messenger."""
    template: str = ""
    decided_template: str = "decided.html"
    """The template that shows, on the page after the answer, what was decided about."""
    styles: tuple[str, ...] = ()
    """The stylesheets in its folder. All stylesheets are joined in the order of their names."""
    scripts: Mapping[str, str] = {}
    """The script modules in its folder, by the selector of the elements that each improves."""
    outcomes: tuple[OutcomeDeclaration, ...] = ()
    card_lists: tuple[str, ...] = ()
    """The names of the list in its context that a messenger shows entry by entry; the first one counts."""
    field_labels: Mapping[str, str] = {}
    """What the pages call the fields of its answers."""
    command: CommandDeclaration | None = None
    entry_point: str = "service"
    """The entry point that usually creates its cases."""
    is_reserved: bool = False
    """Whether only that entry point may create its cases: the page speaks for the entry point."""
    requires_answer: bool = False
    """Whether a missing answer must never count as a yes."""
    takes_custom_actions: bool = False
    """Whether a case may declare actions beyond those of the type."""
    names_requiring_answer: frozenset[str] = frozenset()
    """The custom names of the type for which a missing answer must never count as a yes."""
    page_word: str | None = None
    """The context key of a word that the reviewer must type on the page before confirming."""
    is_first_sample: bool = False
    """Whether the demo opens this type by default."""

    @property
    def is_askable(self) -> bool:
        """Whether the command line and MCP can create its cases. Variants come from one entry point only."""
        return self.command is not None

    @property
    def folder(self) -> Path:
        """The folder of the type, with its page."""
        return Path(import_module(self.package).__path__[0])

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of its actions."""
        return tuple(action.name for action in self.actions)

    @property
    def affirmative_actions(self) -> frozenset[str]:
        """The names of the actions that are a yes."""
        return frozenset(action.name for action in self.actions if action.is_affirmative)

    @property
    def inline_actions(self) -> tuple[str, ...]:
        """The names of the actions that one button press can complete."""
        return tuple(action.name for action in self.actions if action.is_inline)

    def pressable_actions(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the inline actions for this context. If a word must be typed, confirming needs the page."""
        typed = self.page_word is not None and self.page_word in context
        return tuple(one.name for one in self.actions if one.is_inline and not (typed and one.is_affirmative))

    def allows_custom_action(self, action: str) -> bool:
        """Return whether a case may declare this action: its name reads like none that is defined."""
        taken = {keep_letters(word) for one in self.actions for word in (one.name, one.label)}
        letters = keep_letters(action)
        return self.takes_custom_actions and bool(letters) and letters not in taken | STANDARD_ACTIONS

    def load(self, part: str) -> ModuleType:
        """Return a module of the type's folder, such as `review_type` or `mcp_tool`."""
        return import_module(f"{self.package}.{part}")
