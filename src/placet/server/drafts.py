"""Drafts: what a person types is saved while they type, so that they can continue on any device."""

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
from placet.http.routing import json_response
from placet.pages.language import Language
from placet.protocol.poll import Progress
from placet.reviews.form_post import Turn
from placet.reviews.review_type import ReviewType
from placet.server.page_requests import PageAccess, PagePost

Saved = Callable[[Case, Offer], Awaitable[tuple[dict[str, Any], int]]]


class Drafts(HttpApi):
    """Takes what a page's script saves, and tells what is asked and what is wrong by now."""

    def __init__(
        self,
        *,
        desk: ReviewDesk,
        access: PageAccess,
        kind: Callable[[Offer], ReviewType],
        saved: Saved,
        language: Callable[[Request], Language],
    ) -> None:
        self._desk = desk
        self._access = access
        self._kind = kind
        self._saved = saved
        self._language = language
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def alone(self, case_id: str) -> asyncio.Lock:
        """Held while a form is read and written: what two devices save at once lies side by side."""
        return self._turns.setdefault(case_id, asyncio.Lock())

    @pages.post("/review/{case_id}/draft", "saveDraft")
    async def keep(self, request: Request) -> Response:
        """Keep it; refusals are flat JSON, as the page itself has the words for them."""
        try:
            return json_response(await self._keep(request))
        except PlacetError as error:
            status, flat, extra = describe_error(error)
            headers = {name.decode(): value.decode() for name, value in extra}
            return Response(flat, status, {**headers, "cache-control": "no-store"}, "application/json")

    async def _keep(self, request: Request) -> dict[str, Any]:
        post = await self._access.read_post(request)
        turn = await self.save(post)
        say = self._language(request).say
        problems = {key: _plain(say(text)) for key, text in turn.problems.items()}
        return {"asked": turn.asked, "problems": problems}

    async def save(self, post: PagePost) -> Turn:
        """Keep what was typed; what it comes to."""
        async with self.alone(post.case.id):
            saved, step = await self._saved(post.case, post.offer)
            turn = self._kind(post.offer).typing(post.offer, post.typed, saved)
            if drop_empty_values(turn.values) == drop_empty_values(saved):
                return turn
            # Only a press moves a person on: a save that was overtaken by one must not take them back.
            await self._desk.work(
                post.case.id,
                actor=post.session.actor,
                values=turn.values,
                step=step,
                progress=_at_step(turn.progress, step),
            )
        return turn


def _at_step(progress: Progress | None, step: int) -> Progress | None:
    return progress and replace(progress, current_step=min(step + 1, progress.total_steps or 1))


def _plain(text: str) -> str:
    return text.striptags() if isinstance(text, Markup) else text


def drop_empty_values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "", [], {})}
