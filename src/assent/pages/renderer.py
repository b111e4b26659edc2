"""Turns views into HTML; templates of a service come first, ours fill the rest."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from assent.cases.action_labels import action_labels
from assent.pages import facts, words
from assent.pages.api_docs import read_api
from assent.pages.cards import columns_to_sort, draw_cards
from assent.pages.language import ENGLISH, Language
from assent.pages.view import ClosedView, HomeView, MessageView, PassOnView, ReviewView
from assent.pages.visible import is_plain, visible

_TEMPLATES = Path(__file__).parent / "templates"
# Each kind keeps its page beside its rules; pages know the folder, not the kinds.
_KIND_TEMPLATES = Path(__file__).parent.parent / "reviews"


class PageRenderer:
    """Every page, from one set of templates. Raises nothing for anything that a case may hold."""

    def __init__(self, template_dirs: Sequence[Path] = ()) -> None:
        self._folders = [*template_dirs, _TEMPLATES, _KIND_TEMPLATES]
        self._languages = {ENGLISH.code: _environment(self._folders, ENGLISH)}

    def review(self, view: ReviewView) -> str:
        """The open case with the form that answers it."""
        return self._render(view.template, view=view, problems=_problem_list(view))

    def closed(self, view: ClosedView) -> str:
        """What became of a case: answered, expired or withdrawn."""
        return self._render("closed.html", view=view)

    def pass_on(self, view: PassOnView) -> str:
        """The link for a colleague, to be copied now."""
        return self._render("pass_on.html", view=view)

    def message(self, view: MessageView) -> str:
        """A page that says one thing: wrong link, session ended, too busy …"""
        title, text, next_step = words.MESSAGES[view.name]
        return self._render("message.html", view=view, title=title, text=text, next_step=next_step)

    def home(self, view: HomeView) -> str:
        """The landing page with cases to try."""
        return self._render("home.html", view=view)

    def docs(self, openapi: dict[str, Any], *, static_url: str) -> str:
        """The HTTP API for people, from its OpenAPI document."""
        return self._render("docs.html", api=read_api(openapi), static_url=static_url)

    def _render(self, template: str, **values: Any) -> str:
        language = getattr(values.get("view"), "language", ENGLISH)
        environment = self._languages.get(language.code)
        if environment is None:
            environment = self._languages[language.code] = _environment(self._folders, language)
        return environment.get_template(template).render(**values)


def _environment(folders: Sequence[Path], language: Language) -> Environment:
    """Templates that speak one language."""
    environment = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(
        visible=visible,
        action_labels=action_labels,
        look=facts.look,
        columns=facts.columns,
        label=facts.label,
        as_day=facts.as_day,
        as_moment=facts.as_moment,
        relative=language.relative,
        calendar=language.calendar,
        exact=language.exact,
        day=language.day,
        say=language.say,
        number=language.number,
        listing=language.listing,
    )
    environment.tests["plain"] = is_plain
    environment.globals.update(draw_cards=draw_cards, columns_to_sort=columns_to_sort)
    environment.globals.update(
        t=language.t, tn=language.tn, words=words, language=language.code, direction=language.direction
    )
    return environment


def _problem_list(view: ReviewView) -> list[dict[str, str | None]]:
    """Each problem with what its field is called on the page, and where it stands if it does."""
    steps = view.substance.get("steps", ())
    fields = {field["key"]: field["label"] for step in steps for field in step["fields"]}
    labels = {**words.FIELDS, **fields}
    return [
        {"label": labels.get(name, name), "message": message, "place": name if name in labels else None}
        for name, message in view.problems.items()
    ]
