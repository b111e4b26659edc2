"""Prove an answer with a one-time code that is sent to the person by e-mail."""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from msgspec import Struct

from placet.errors import ChannelRefused, SettingsError, Unavailable, Unreachable, VerificationFailed
from placet.ports.proof_method import ProofRequest
from placet.ports.verification_store import PageProof
from placet.protocol.mail_address import is_mail_address, is_one_of
from placet.protocol.poll import RespondedBy
from placet.protocol.verification import EMAIL_CODE, OWN_PROVIDER, ProofSource
from placet.text.characters import mark_hidden
from placet.text.wording import message
from placet.verification.page_proof import build_page_proof

FORMAT = "x-code"
DIGITS = 8
MAX_CODES = 3
"""How many codes one attempt may send."""
MAX_QUOTED = 200


class CodeMail(Struct, frozen=True, kw_only=True):
    """An e-mail with a code."""

    recipient: str
    subject: str
    text: str


SendMail = Callable[[CodeMail], Awaitable[None]]


class EmailCodeProof:
    """Sends a code to an address that may answer, and accepts it once."""

    name = "email_code"
    is_automatic = False
    starts_alone = False
    may_retry = True

    def __init__(
        self,
        *,
        send: SendMail,
        generate_code: Callable[[], str],
        service_name: str,
        allowed: Sequence[str] = (),
        lasts_for: timedelta = timedelta(minutes=10),
    ) -> None:
        self._send = send
        self._generate_code = generate_code
        self._service_name = service_name
        self._allowed = [check_allowed(one) for one in allowed]
        self._lasts_for = lasts_for
        self.source = ProofSource(
            proof_type=EMAIL_CODE,
            provider=OWN_PROVIDER,
            formats=(FORMAT,),
            paths=frozenset({"browser_submit"}),
            assurance="low",
            needs_reviewers=not allowed,  # else everybody with an address could answer
        )

    async def start(
        self, request: ProofRequest, typed: Mapping[str, str], started: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Send a code to the typed address and return its digest."""
        address = typed.get("email", "").strip()
        if not is_mail_address(address):
            raise VerificationFailed(message("Enter your e-mail address, such as ada@acme.example."))
        if not self._may_answer(request.reviewers, address):
            raise VerificationFailed(
                message(
                    "This address cannot answer this question. Use the one that the question was sent to."
                )
            )
        sent = int(started.get("sent", 0))
        if sent >= MAX_CODES:
            raise VerificationFailed(
                message("No more codes can be sent for this answer. Go back and decide again.")
            )
        code = self._generate_code()
        try:
            await self._send(self._write_mail(request, address, code))
        except (ChannelRefused, Unreachable, SettingsError) as error:
            raise Unavailable("The code could not be sent by e-mail. Try again.") from error
        return {
            "email": address,
            "digest": _digest_code(request.attempt_id, code),
            "ends": (request.now + self._lasts_for).timestamp(),
            "sent": sent + 1,
        }

    async def finish(
        self, request: ProofRequest, typed: Mapping[str, str], started: Mapping[str, Any]
    ) -> PageProof:
        """Return the proof if the typed code is the one that was sent."""
        code = "".join(digit for digit in typed.get("code", "") if digit.isascii() and digit.isdigit())
        expected = started.get("digest")
        if not isinstance(expected, str) or request.now.timestamp() >= started.get("ends", 0):
            raise VerificationFailed(message("This code has expired. Ask for a new one."))
        if not hmac.compare_digest(_digest_code(request.attempt_id, code), expected):
            raise VerificationFailed(message("This is not the code that was sent. Check the latest e-mail."))
        return build_page_proof(self.source, now=request.now, person=RespondedBy(email=started["email"]))

    def describe(self, started: Mapping[str, Any]) -> dict[str, Any]:
        """Return the address that the code was sent to."""
        return {"email": started.get("email")}

    def _may_answer(self, reviewers: Sequence[str], address: str) -> bool:
        return is_one_of(address, reviewers or self._allowed)

    def _write_mail(self, request: ProofRequest, address: str, code: str) -> CodeMail:
        shown = f"{code[: DIGITS // 2]} {code[DIGITS // 2 :]}"
        prompt = " ".join(mark_hidden(request.prompt).split())[:MAX_QUOTED]
        minutes = int(self._lasts_for.total_seconds() // 60)
        text = (
            f"Your code is {shown}. It works for {minutes} minutes.\n\n"
            f"It confirms one answer to {self._service_name}:\n\n"
            f"  Answer: {request.action}\n  Question: {prompt}\n\n"
            "If you did not just give this answer, do not pass the code on: nothing happens without it.\n"
        )
        subject = f"{shown} is your code for {self._service_name}"
        return CodeMail(recipient=address, subject=subject, text=text)


def check_allowed(text: str) -> str:
    """Return an allowed address or domain. Raises SettingsError for anything else."""
    is_domain = text.startswith("@") and is_mail_address(f"a{text}")
    if not is_domain and not is_mail_address(text):
        raise SettingsError(
            f"verification.email_codes: {text[:60]!a} is neither an address nor a domain. Write"
            " ada@acme.example or @acme.example."
        )
    return text


def _digest_code(attempt_id: str, code: str) -> str:
    return hashlib.sha256(f"{attempt_id}:{code}".encode()).hexdigest()
