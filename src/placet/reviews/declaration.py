"""What a review type declares about itself, as data.

Everything that pages, messengers, the command line, MCP, and agents need to know about a type is here, so
that none of them names a type. Declarations import nothing of the server: an agent process reads them, too.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from msgspec import Struct

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
    """One action: its texts, and what it means."""

    name: str
    label: str
    """What its button says on the page."""
    answered: str
    """What became of the case, as a headline."""
    afterwards: str
    """What happens now, on the page after the answer."""
    guidance: str
    """What an assistant should do after this answer."""
    messenger_label: str = ""
    """What its button says in a messenger, if that differs from the page."""
    is_against: bool = False
    """Whether the person said no, or not like this."""
    is_inline: bool = False
    """Whether one press of a button can be the whole answer."""
    tone: Tone = "neutral"


class OutcomeDeclaration(Struct, frozen=True, kw_only=True):
    """A result that has other texts than the action it came from."""

    name: str
    answered: str
    afterwards: str


class CommandOption(Struct, frozen=True, kw_only=True):
    """One option of `placet ask TYPE`."""

    flag: str
    argument: str
    """The argument of `build_context` that takes the value."""
    help: str
    metavar: str | None = None
    value: ValueKind = "text"
    multiple: bool = False
    required: bool = False
    minimum: int | None = None
    title_key: str = "title"
    """What the title of an entry ID=TITLE is called in the context."""


class CommandDeclaration(Struct, frozen=True, kw_only=True):
    """The command `placet ask TYPE`."""

    help: str
    options: tuple[CommandOption, ...]
    build_context: Callable[..., dict[str, Any]]
    """The context made of the options' values; raises ValueError with a sentence if they contradict."""


class TypeDeclaration(Struct, frozen=True, kw_only=True):
    """One review type, or a variant of a type that has its own page."""

    name: str
    """What Placet calls it. The same as `type`, except for variants."""
    type: str
    """The type on the wire."""
    package: str
    title: str
    actions: tuple[ActionDeclaration, ...]
    example: Mapping[str, Any]
    """The body that opens a sample case."""
    question: str = ""
    """Who asks for what, above the question: names `{service}`."""
    if_answered: tuple[str, str] | None = None
    """A heading and a sentence about what an answer does."""
    link_label: str = "Open the review"
    """What the button with the review link says in a messenger."""
    template: str = ""
    outcomes: tuple[OutcomeDeclaration, ...] = ()
    command: CommandDeclaration | None = None
    entry_point: str = "service"
    """Where its cases usually come from."""
    requires_answer: bool = False
    """Whether no answer may never count as a yes."""
    page_word: str | None = None
    """The name in the context of a word that must be typed on the page before anything affirmative."""
    is_first_sample: bool = False
    """Whether the demo opens this type if none is named."""

    @property
    def is_askable(self) -> bool:
        """Whether a command and an assistant can ask it: variants come from one entry point only."""
        return self.command is not None

    @property
    def action_names(self) -> tuple[str, ...]:
        """The names of its actions."""
        return tuple(action.name for action in self.actions)

    @property
    def inline_actions(self) -> tuple[str, ...]:
        """The names of the actions that one press can take."""
        return tuple(action.name for action in self.actions if action.is_inline)

    def pressable_actions(self, context: Mapping[str, Any]) -> tuple[str, ...]:
        """The inline actions for this context: a word that must be typed leaves only those against."""
        typed = self.page_word is not None and self.page_word in context
        return tuple(one.name for one in self.actions if one.is_inline and (one.is_against or not typed))

    def load(self, part: str) -> ModuleType:
        """Return a module of the type's folder, such as `review_type` or `mcp_tool`."""
        return import_module(f"{self.package}.{part}")
