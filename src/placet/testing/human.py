"""A person who does what a test tells them: they hold a review link, and perhaps a button."""

from collections.abc import Sequence
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from placet.cases.case import Case, Offer
from placet.desk.answer import Answer
from placet.desk.review_desk import ReviewDesk
from placet.protocol.inline_submit import SubmitReceipt, SubmitRequest, SubmittedBy
from placet.protocol.poll import Progress
from placet.protocol.verification import Evidence


class ScriptedHuman:
    """Somebody with a review link; each method is one thing they do, refused as it would be for anyone."""

    def __init__(self, desk: ReviewDesk, review_url: str, *, submit_token: str | None = None) -> None:
        self._desk = desk
        parts = urlsplit(review_url)
        self.case_id = parts.path.rpartition("/")[2]
        self.token = parse_qs(parts.query).get("token", [""])[0]
        self.submit_token = submit_token

    async def look(self) -> tuple[Case, Offer]:
        """What the link shows; looking changes nothing."""
        await self._desk.admit(self.case_id, self.token)
        return await self._desk.get_case_and_offer(self.case_id)

    async def read(self) -> Case:
        """Have the page open, as its script reports."""
        return await self._desk.view(self.case_id, actor=await self._actor())

    async def type(self, values: dict[str, Any], *, progress: Progress | None = None, step: int = 0) -> Case:
        """Fill in something and leave it there."""
        actor = await self._actor()
        return await self._desk.work(self.case_id, actor=actor, values=values, step=step, progress=progress)

    async def answer(
        self,
        action: str,
        data: dict[str, Any] | None = None,
        *,
        shown: str | None = None,
        evidence: Sequence[Evidence] = (),
        replay_digest: str | None = None,
    ) -> Case:
        """Decide on the page; `shown` is the digest of what they saw, else of what the case shows."""
        case, _ = await self.look()
        answer = Answer(
            action=action,
            data=data or {},
            path="browser_submit",
            actor=await self._actor(),
            evidence=tuple(evidence),
            replay_digest=replay_digest,
        )
        return await self._desk.answer(self.case_id, answer, shown=shown or case.offer_digest)

    async def press(
        self,
        action: str,
        data: dict[str, Any] | None = None,
        *,
        evidence: Sequence[Evidence] = (),
        replay_digest: str | None = None,
    ) -> SubmitReceipt:
        """Press a native button; their agent submits it with the token it has, if it has one."""
        request = SubmitRequest(
            action=action,
            data=data or {},
            submitted_via="telegram_inline_button",
            submitted_by=SubmittedBy(platform="telegram", platform_user_id="42", display_name="Ada"),
            verification_evidence=tuple(evidence),
        )
        return await self._desk.submit_inline(
            self.case_id, self.submit_token, request, replay_digest=replay_digest
        )

    async def pass_on(self, note: str | None = None) -> Self:
        """Hand the question to a colleague, who gets a link of their own."""
        link = await self._desk.pass_on(self.case_id, actor=await self._actor(), note=note)
        return type(self)(self._desk, link)

    async def decline(self, reason: str | None = None) -> Case:
        """Say that they will not decide this."""
        return await self._desk.decline(self.case_id, actor=await self._actor(), reason=reason)

    async def _actor(self) -> str:
        _, link = await self._desk.admit(self.case_id, self.token)
        return f"link:{link[:12]}"
