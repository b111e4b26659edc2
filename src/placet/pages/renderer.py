"""Turns views into HTML; templates of a service come first, ours fill the rest."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import (
    BytecodeCache,
    Environment,
    FileSystemLoader,
    StrictUndefined,
    TemplateNotFound,
    TemplateSyntaxError,
    meta,
)
from jinja2.bccache import Bucket

from placet.cases.action_labels import action_labels
from placet.cases.case import Offer
from placet.errors import SettingsError
from placet.pages import page_texts
from placet.pages.api_docs import format_description, read_api
from placet.pages.content import ValueRenderer, display_forms
from placet.pages.diffs import Comparison, compare
from placet.pages.language import ENGLISH, Language
from placet.pages.option_cards import columns_to_sort, draw_cards
from placet.pages.theme import Theme, load_built_in_theme
from placet.pages.view import (
    ClosedView,
    HomeView,
    InboxView,
    MessageView,
    PassOnView,
    ReviewView,
    SignInView,
)
from placet.text.characters import contains_hidden, mark_hidden
from placet.text.wording import Message, Title

_TEMPLATES = Path(__file__).parent / "templates"
# Each kind keeps its page beside its rules; pages know the folder, not the kinds.
_KIND_TEMPLATES = Path(__file__).parent.parent / "reviews"


class PageRenderer:
    """Every page, from one set of templates. Raises nothing for anything that a case may hold."""

    def __init__(self, template_dirs: Sequence[Path] = (), *, theme: Theme | None = None) -> None:
        self._theme = theme or load_built_in_theme()
        own = [self._theme.templates] if self._theme.templates else []
        self._folders = [*template_dirs, *own, _TEMPLATES, _KIND_TEMPLATES]
        self._compiled = _Compiled()
        self._environments = {ENGLISH.code: self._environment(ENGLISH)}
        if self._theme.templates:
            _check(self._environments[ENGLISH.code], self._theme.templates)

    def render_review(self, view: ReviewView) -> str:
        """The open case with the form that answers it."""
        return "".join(self.render_review_parts(view))

    def render_review_parts(self, view: ReviewView) -> Iterator[str]:
        """The same piece by piece, so that a long page need not hold up what runs beside it."""
        return self._parts(view.template, view=view, problems=_problem_list(view))

    def render_closed_case(self, view: ClosedView) -> str:
        """What became of a case: answered, expired or withdrawn."""
        return "".join(self.render_closed_case_parts(view))

    def render_closed_case_parts(self, view: ClosedView) -> Iterator[str]:
        """The same piece by piece."""
        return self._parts("closed.html", view=view)

    def render_pass_on(self, view: PassOnView) -> str:
        """The link for a colleague, to be copied now."""
        return self._render("pass_on.html", view=view)

    def render_message(self, view: MessageView) -> str:
        """A page that says one thing: wrong link, session ended, too busy …"""
        title, text, next_step = page_texts.MESSAGES[view.name]
        return self._render("message.html", view=view, title=title, text=text, next_step=next_step)

    def render_home(self, view: HomeView) -> str:
        """The landing page with cases to try."""
        return self._render("home.html", view=view)

    def render_sign_in(self, view: SignInView) -> str:
        """Where a person shows their key."""
        return self._render("sign_in.html", view=view)

    def render_inbox(self, view: InboxView) -> str:
        """What waits, or was decided last."""
        return self._render("inbox.html", view=view)

    def render_docs(self, openapi: dict[str, Any], *, static_url: str) -> str:
        """The HTTP API for people, from its OpenAPI document."""
        return self._render("docs.html", api=read_api(openapi), static_url=static_url)

    def _render(self, template: str, **values: Any) -> str:
        return "".join(self._parts(template, **values))

    def _parts(self, template: str, **values: Any) -> Iterator[str]:
        language = getattr(values.get("view"), "language", ENGLISH)
        environment = self._environments.get(language.code)
        if environment is None:
            environment = self._environments[language.code] = self._environment(language)
        return environment.get_template(template).generate(**values)

    def _environment(self, language: Language) -> Environment:
        environment = _environment(self._folders, language, self._compiled)
        environment.globals.update(brand=self._theme, spoken=list(self._theme.languages))
        return environment


def _check(environment: Environment, folder: Path) -> None:
    """Raises SettingsError unless every template in a folder can be compiled and finds those it names."""
    for file in sorted(folder.rglob("*.html")):
        try:
            environment.get_template(file.relative_to(folder).as_posix())
            for named in meta.find_referenced_templates(environment.parse(file.read_text("utf-8"))):
                environment.get_template(named) if named else None
        except TemplateNotFound as error:
            raise SettingsError(f"{file} cannot be used: there is no template {error.name!r}.") from error
        except TemplateSyntaxError as error:
            raise SettingsError(f"{file} cannot be used: {error}") from error


class _Compiled(BytecodeCache):
    """Compiled templates, shared by the languages: each is compiled once."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill in what is known."""
        if bucket.key in self._code:
            bucket.bytecode_from_string(self._code[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what was compiled."""
        self._code[bucket.key] = bucket.bytecode_to_string()


def _environment(folders: Sequence[Path], language: Language, compiled: BytecodeCache) -> Environment:
    """Templates that speak one language."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        bytecode_cache=compiled,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        visible=mark_hidden,
        action_labels=action_labels,
        button_labels=lambda offer: _button_labels(offer, language),
        described=format_description,
        display_form=display_forms.choose_form,
        label=display_forms.format_label,
        as_day=display_forms.parse_day,
        as_moment=display_forms.parse_moment,
        relative=language.relative,
        calendar=language.calendar,
        exact=language.exact,
        day=language.day,
        say=language.say,
        number=language.number,
        listing=language.listing,
    )
    environment.tests.update(
        hiding=contains_hidden,
        compared=lambda value: isinstance(value, Comparison),
        title=lambda name: isinstance(name, Title),
        said=lambda text: isinstance(text, Message),
    )
    content = environment.globals["content"] = ValueRenderer(language)
    environment.filters["marked"] = content.mark
    environment.globals.update(draw_cards=draw_cards, columns_to_sort=columns_to_sort, compare=compare)
    environment.globals.update(
        t=language.t,
        tn=language.tn,
        texts=page_texts,
        language=language.code,
        direction=language.direction,
        grouping=language.grouping,
    )
    return environment


def _button_labels(offer: Offer, language: Language) -> dict[str, str]:
    """What the service calls its actions; nothing where one of them bears the name that we give another."""
    labels = action_labels(offer.context)
    names = {
        action: page_texts.ACTIONS.get(action) or display_forms.format_label(action)
        for action in offer.actions
    }
    taken = [(action, _letters(name)) for action, ours in names.items() for name in (ours, language.t(ours))]
    if any(
        _letters(label) == name for said, label in labels.items() for action, name in taken if action != said
    ):
        return {}
    return labels


def _letters(text: str) -> str:
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _problem_list(view: ReviewView) -> list[dict[str, str | None]]:
    """Each problem with what its field is called on the page, and where it stands if it does."""
    steps = view.substance.get("steps", ())
    fields = {field["key"]: field["label"] for step in steps for field in step["fields"]}
    labels = {**page_texts.FIELDS, **fields, **view.substance.get("labels", {})}
    return [
        {"label": labels.get(name, name), "message": message, "place": name if name in labels else None}
        for name, message in view.problems.items()
    ]
