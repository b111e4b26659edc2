"""Render views as HTML; a theme's templates override the built-in ones."""

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

from placet.cases.action_labels import read_action_labels
from placet.errors import SettingsError
from placet.pages import page_texts
from placet.pages.action_buttons import list_action_buttons
from placet.pages.api_docs import format_description, read_api
from placet.pages.content import ValueRenderer, display_forms
from placet.pages.diffs import Comparison, compare
from placet.pages.language import ENGLISH, Language
from placet.pages.option_cards import columns_to_sort, draw_cards
from placet.pages.theme import Theme, load_built_in_theme
from placet.pages.verification_view import NewPasskeyView, VerificationView
from placet.pages.view import (
    ClosedView,
    HomeView,
    InboxView,
    MessageView,
    PassOnView,
    ReviewView,
    SignInView,
)
from placet.reviews.registry import list_template_folders
from placet.text.characters import contains_hidden, mark_hidden
from placet.text.wording import Message, Title

_TEMPLATES = Path(__file__).parent / "templates"


class PageRenderer:
    """Renders every page from one set of templates. No content of a case makes it raise an exception."""

    def __init__(self, *, theme: Theme | None = None) -> None:
        self._theme = theme or load_built_in_theme()
        own = [self._theme.templates] if self._theme.templates else []
        self._folders = [*own, _TEMPLATES, *list_template_folders()]
        self._compiled = _TemplateCache()
        self._environments = {ENGLISH.code: self._build_environment(ENGLISH)}
        if self._theme.templates:
            _check(self._environments[ENGLISH.code], self._theme.templates)

    def render_review(self, view: ReviewView) -> Iterator[str]:
        """Yield the page of an open case with the form to answer it.

        It comes in pieces, so that a long page does not block other requests.
        """
        return self._render_parts(view.template, view=view, problems=_list_problems(view))

    def render_closed_case(self, view: ClosedView) -> Iterator[str]:
        """Yield the page of a case that was answered, expired or was withdrawn, in pieces."""
        return self._render_parts("closed.html", view=view)

    def render_pass_on(self, view: PassOnView) -> str:
        """Return the page with a new link for a colleague."""
        return self._render("pass_on.html", view=view)

    def render_message(self, view: MessageView) -> str:
        """Return a page with one message: wrong link, session ended, too many requests …"""
        title, text, next_step = page_texts.MESSAGES[view.name]
        icon = page_texts.MESSAGE_ICONS.get(view.name, "warning")
        return self._render("message.html", view=view, title=title, text=text, next_step=next_step, icon=icon)

    def render_verification(self, view: VerificationView) -> str:
        """Return the page that asks for the proofs of an answer."""
        return self._render("verify.html", view=view)

    def render_new_passkey(self, view: NewPasskeyView) -> str:
        """Return the page to create a passkey."""
        return self._render("new_passkey.html", view=view)

    def render_home(self, view: HomeView) -> str:
        """Return the home page; in the demo it lists cases to try."""
        return self._render("home.html", view=view)

    def render_sign_in(self, view: SignInView) -> str:
        """Return the page to sign in to the inbox."""
        return self._render("sign_in.html", view=view)

    def render_inbox(self, view: InboxView) -> str:
        """Return the inbox with open cases or with those decided last."""
        return self._render("inbox.html", view=view)

    def render_docs(self, openapi: dict[str, Any], *, static_url: str) -> str:
        """Return the page that describes the HTTP API, from its OpenAPI document."""
        return self._render("docs.html", api=read_api(openapi), static_url=static_url)

    def _render(self, template: str, **values: Any) -> str:
        return "".join(self._render_parts(template, **values))

    def _render_parts(self, template: str, **values: Any) -> Iterator[str]:
        language = getattr(values.get("view"), "language", ENGLISH)
        environment = self._environments.get(language.code)
        if environment is None:
            environment = self._environments[language.code] = self._build_environment(language)
        return environment.get_template(template).generate(**values)

    def _build_environment(self, language: Language) -> Environment:
        environment = _build_environment(self._folders, language, self._compiled)
        environment.globals.update(brand=self._theme, spoken=list(self._theme.languages))
        return environment


def _check(environment: Environment, folder: Path) -> None:
    """Raise SettingsError unless every template in a folder compiles and finds the templates it names."""
    for file in sorted(folder.rglob("*.html")):
        try:
            environment.get_template(file.relative_to(folder).as_posix())
            for named in meta.find_referenced_templates(environment.parse(file.read_text("utf-8"))):
                environment.get_template(named) if named else None
        except TemplateNotFound as error:
            raise SettingsError(f"{file}: there is no template {error.name!r}.") from error
        except TemplateSyntaxError as error:
            raise SettingsError(f"{file} cannot be used: {error}") from error


class _TemplateCache(BytecodeCache):
    """Caches compiled templates for all languages, so that each is compiled once."""

    def __init__(self) -> None:
        self._code: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load the template's bytecode if it is cached."""
        if bucket.key in self._code:
            bucket.bytecode_from_string(self._code[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Cache the template's bytecode."""
        self._code[bucket.key] = bucket.bytecode_to_string()


def _build_environment(folders: Sequence[Path], language: Language, compiled: BytecodeCache) -> Environment:
    """Return the template environment of one language."""
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
        action_labels=read_action_labels,
        buttons=lambda offer: list_action_buttons(offer, language),
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


def _list_problems(view: ReviewView) -> list[dict[str, str | None]]:
    """Return each problem with its field's label, and its field's name if the page has it."""
    steps = view.substance.get("steps", ())
    fields = {field["key"]: field["label"] for step in steps for field in step["fields"]}
    labels = {**page_texts.FIELDS, **fields, **view.substance.get("labels", {})}
    return [
        {"label": labels.get(name, name), "message": message, "place": name if name in labels else None}
        for name, message in view.problems.items()
    ]
