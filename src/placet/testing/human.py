"""A scripted reviewer for tests, with a review link and perhaps a submit token."""

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
    """A reviewer with a review link. Each method is one action; the desk may refuse it as for any person."""

    def __init__(self, desk: ReviewDesk, review_url: str, *, submit_token: str | None = None) -> None:
        self._desk = desk
        parts = urlsplit(review_url)
        self.case_id = parts.path.rpartition("/")[2]
        self.token = parse_qs(parts.query).get("token", [""])[0]
        self.submit_token = submit_token

    async def look(self) -> tuple[Case, Offer]:
        """Return the case and the offer that the link shows, without changing the case."""
        await self._desk.admit(self.case_id, self.token)
        return await self._desk.get_case_and_offer(self.case_id)

    async def read(self) -> Case:
        """Report that the page is open, as its script does."""
        return await self._desk.view(self.case_id, actor=await self._get_actor())

    async def type(self, values: dict[str, Any], *, progress: Progress | None = None, step: int = 0) -> Case:
        """Enter values without submitting them."""
        actor = await self._get_actor()
        return await self._desk.save_progress(
            self.case_id, actor=actor, values=values, step=step, progress=progress
        )

    async def answer(
        self,
        action: str,
        data: dict[str, Any] | None = None,
        *,
        shown: str | None = None,
        evidence: Sequence[Evidence] = (),
        replay_digest: str | None = None,
    ) -> Case:
        """Answer on the page. `shown` is the digest of the offer they saw; default: the case's offer."""
        case, _ = await self.look()
        answer = Answer(
            action=action,
            data=data or {},
            path="browser_submit",
            actor=await self._get_actor(),
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
        """Press a native button. The agent submits it with the submit token, if it has one."""
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
        """Pass the case on to a colleague, and return the colleague, who has a new link."""
        link = await self._desk.pass_on(self.case_id, actor=await self._get_actor(), note=note)
        return type(self)(self._desk, link)

    async def hand_back(self, reason: str | None = None) -> Case:
        """Hand the case back without a decision."""
        return await self._desk.hand_back(self.case_id, actor=await self._get_actor(), reason=reason)

    async def _get_actor(self) -> str:
        _, link = await self._desk.admit(self.case_id, self.token)
        return f"link:{link[:12]}"
