"""Save a reviewer's form while they type, so that they can continue on any device."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakValueDictionary

from markupsafe import Markup
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from placet.cases.case import Case, Offer
from placet.desk.review_desk import ReviewDesk
from placet.errors import PlacetError
from placet.http.error_replies import describe_error
from placet.http.route import HttpApi, pages
from placet.http.routing import build_json_response
from placet.pages.language import Language
from placet.protocol.poll import Progress
from placet.reviews.form_post import PostResult
from placet.reviews.review_type import ReviewType
from placet.server.page_requests import PageAccess, PagePost

Saved = Callable[[Case, Offer], Awaitable[tuple[dict[str, Any], int]]]


class Drafts(HttpApi):
    """Saves what a page's script sends, and returns which fields apply and their problems."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        access: PageAccess,
        load_type: Callable[[Offer], ReviewType],
        saved: Saved,
        language: Callable[[Request], Language],
    ) -> None:
        self._desk = desk
        self._access = access
        self._load_type = load_type
        self._saved = saved
        self._language = language
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock_case(self, case_id: str) -> asyncio.Lock:
        """Return the lock to hold while a draft is read and written: two devices may save at once."""
        return self._turns.setdefault(case_id, asyncio.Lock())

    @pages.post("/review/{case_id}/draft", "saveDraft")
    async def save_draft(self, request: Request) -> Response:
        """Save the draft; errors are flat JSON, because the page's script shows its own texts."""
        try:
            return build_json_response(await self._save_and_describe(request))
        except PlacetError as error:
            status, flat, extra = describe_error(error)
            headers = {name.decode(): value.decode() for name, value in extra}
            return Response(flat, status, {**headers, "cache-control": "no-store"}, "application/json")

    async def _save_and_describe(self, request: Request) -> dict[str, Any]:
        post = await self._access.read_post(request)
        turn = await self.save(post)
        say = self._language(request).say
        problems = {key: _make_plain(say(text)) for key, text in turn.problems.items()}
        return {"asked": turn.asked, "problems": problems}

    async def save(self, post: PagePost) -> PostResult:
        """Save what was entered and return how the form reads it."""
        async with self.lock_case(post.case.id):
            saved, step = await self._saved(post.case, post.offer)
            turn = self._load_type(post.offer).read_draft(post.offer, post.typed, saved)
            if drop_empty_values(turn.values) == drop_empty_values(saved):
                return turn
            # Only a button moves to another step: a late save must not move the reviewer back.
            await self._desk.save_progress(
                post.case.id,
                actor=post.session.actor,
                values=turn.values,
                step=step,
                progress=_read_step(turn.progress, step),
            )
        return turn


def _read_step(progress: Progress | None, step: int) -> Progress | None:
    return progress and replace(progress, current_step=min(step + 1, progress.total_steps or 1))


def _make_plain(text: str) -> str:
    return text.striptags() if isinstance(text, Markup) else text


def drop_empty_values(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without those that are empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
