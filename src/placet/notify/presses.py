"""Take the answer of a person who pressed a button in one of the server's messages."""

from placet.cases.case import Case
from placet.channels.interaction_handler import (
    NOT_AN_ANSWERER,
    NOT_RECORDED,
    QUESTION_CLOSED,
    REPLIES,
)
from placet.desk.answer import Answer
from placet.desk.idempotency import digest
from placet.desk.review_desk import ReviewDesk
from placet.errors import CaseNotFound, ContentAltered, RequestError, Unavailable
from placet.notify.button_references import ButtonReferences
from placet.ports.channel import Interaction
from placet.ports.recipients import RecipientDirectory
from placet.protocol.inline_submit import SubmittedBy
from placet.protocol.poll import RespondedBy

TRY_AGAIN = "Nothing was recorded: the server is busy. Press again in a minute."
MAX_DISPLAY_NAME_LENGTH = 500


class ButtonPresses:
    """Submits the presses of people whom a recipient of the case names as answerers."""

    def __init__(
        self, *, desk: ReviewDesk, directory: RecipientDirectory, references: ButtonReferences
    ) -> None:
        self._desk = desk
        self._directory = directory
        self._references = references

    async def process(self, interaction: Interaction) -> str:
        """Answer the case for this person and return the reply to them."""
        found = self._references.read(interaction.reference)
        if found is None:
            return QUESTION_CLOSED
        case_id, number = found
        try:
            case, offer = await self._desk.get_case_and_offer(case_id)
            person = await self._find_person(case, interaction)
            if person is None:
                return NOT_AN_ANSWERER
            action = offer.actions[number]
            _ = await self._desk.answer(case_id, _build_answer(interaction, action, person))
        except (CaseNotFound, IndexError):
            return QUESTION_CLOSED
        except ContentAltered:
            return REPLIES[403]
        except Unavailable:
            return TRY_AGAIN
        except RequestError as error:
            return REPLIES.get(error.status, NOT_RECORDED)
        return REPLIES[200]

    async def _find_person(self, case: Case, interaction: Interaction) -> str | None:
        """Return the name of the person, if the case's recipients let them answer."""
        user = f"{interaction.user.platform}:{interaction.user.user_id}"
        for recipient in await self._directory.resolve(case.recipients):
            if user in recipient.answerers:
                return recipient.answerers[user]
        return None


def _build_answer(interaction: Interaction, action: str, person: str) -> Answer:
    user = interaction.user
    return Answer(
        action=action,
        data={},
        path="inline_submit",
        actor=f"inline:{user.platform}",
        submitted_via=interaction.via,
        submitted_by=SubmittedBy(
            platform=user.platform,
            platform_user_id=user.user_id,
            display_name=user.name[:MAX_DISPLAY_NAME_LENGTH] if user.name else None,
        ),
        responded_by=RespondedBy(name=person),
        replay_digest=digest(f"{user.platform}:{user.user_id}", action.encode()),
        is_verified_press=True,
    )
