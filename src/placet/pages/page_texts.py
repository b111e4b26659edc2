"""The texts of the pages in English; the page's language translates them."""

from collections.abc import Mapping

from placet.cases.case import Offer
from placet.reviews.registry import DECLARATIONS, ActionTexts, FieldLabels, find_declaration
from placet.text.shared_wording import ASKS_FOR_DECISION, IF_UNANSWERED
from placet.text.wording import message, phrase

IF_ANSWERED = (phrase("When you answer"), phrase("Your answer goes to {service}."))
AFTER_EXPIRY = IF_UNANSWERED
# What comes of no answer, after the time until which the case is open.
AFTER_DEADLINE: Mapping[str, str] = {
    "skip": phrase("After that, this step is left out."),
    "reject": phrase("After that, it counts as a no."),
    "abort": phrase("After that, the agent is told to stop."),
    "approve": phrase("After that, it counts as a yes, because {service} asked for that."),
}
ACTIONS: Mapping[str, str] = ActionTexts("label")
ANSWERED: Mapping[str, str] = ActionTexts("answered")
AFTERWARDS: Mapping[str, str] = ActionTexts("afterwards")


def find_question(type: str) -> str:
    """Return who asks for what, above a question of this type."""
    declared = find_declaration(type)
    return declared.question if declared is not None else ASKS_FOR_DECISION


def find_consequence(offer: Offer) -> tuple[str, str]:
    """Return a heading and a sentence about what an answer does; a type does not know custom actions."""
    declared = find_declaration(offer.type)
    if declared is None or not set(offer.actions) <= set(declared.action_names):
        return IF_ANSWERED
    return declared.if_answered or IF_ANSWERED


def find_title(name: str) -> str | None:
    """Return what a type or variant is called; None for types that Placet does not know."""
    declared = DECLARATIONS.get(name)
    return declared.title if declared is not None else None


FIELDS: Mapping[str, str] = FieldLabels(
    {
        "note": message("Note"),
        "answer": message("Your answer"),
        "pass_on_note": message("Pass on to a colleague"),
    }
)

# Who asks when no principal's name is known.
UNNAMED_ASKERS: Mapping[str, str] = {
    "anonymous": phrase("Someone without a key"),
    "relay": phrase("The relay"),
}

OTHER_TYPES = phrase("Other questions")

STATES: Mapping[str, str] = {
    "pending": phrase("new"),
    "opened": phrase("opened"),
    "in_progress": phrase("begun"),
    "completed": phrase("Answered"),
    "expired": phrase("Nobody answered in time"),
    "cancelled": phrase("Withdrawn"),
}

APPROVED_NOT_RUN = phrase("Approved, not run yet")
# What became of an approved call, as its agent reports it.
EXECUTIONS: Mapping[str, str] = {
    "ran": phrase("It ran"),
    "failed": phrase("It failed, or how it ended is not known"),
    "rejected": phrase("It never ran: rejected"),
    "timed_out": phrase("It never ran: not decided in time"),
    "withdrawn": phrase("It never ran: the agent no longer needed it"),
    "superseded": phrase("It never ran: a message or another call took its place"),
    "not_claimed": phrase("It never ran: the agent stopped before it"),
}

SIGN_IN_PROBLEMS: Mapping[str, str] = {
    "no_key": phrase("Enter your key."),
    "wrong_key": phrase("This key is not known here, or it has ended. Check that all of it was copied."),
    "other_key": phrase("This key is for a program and does not open the inbox. Use the one made for you."),
}

# Reasons for handing a case back, by the value that the form posts.
HAND_BACK_REASONS: Mapping[str, str] = {
    "not_mine": phrase("This is not mine to decide."),
    "too_little": phrase("I do not know enough to decide this."),
    "not_needed": phrase("This is no longer needed."),
}

NOTICES: Mapping[str, str] = {
    "more_asked": phrase("Your answer brings up one more question. Nothing is lost."),
    "saved": phrase(
        "What you typed so far is kept. You can close this page and go on later by the same link."
    ),
}

# Messages whose next step is the review page.
LEADS_BACK = frozenset(
    {"answered_elsewhere", "too_late", "content_changed", "too_busy", "not_recorded", "broken"}
)

# Messages about a fault of ours.
FAULTS = frozenset({"altered", "not_recorded", "broken", "failed"})

# The icon above each message; a warning sign above the others.
MESSAGE_ICONS: Mapping[str, str] = {
    "wrong_link": "link",
    "session_ended": "lock",
    "signed_out": "lock",
    "not_found": "search",
    "no_page": "search",
    "answered_elsewhere": "check",
    "too_late": "clock",
    "second_person": "lock",
    "unproven": "lock",
    "outside_frame": "lock",
    "too_busy": "clock",
}

# Each message: title, what happened, next step.
MESSAGES: Mapping[str, tuple[str, str, str]] = {
    "wrong_link": (
        phrase("This link does not open anything"),
        phrase("It may have been cut off when it was copied, or it belongs to another question."),
        phrase("Open the link again from the message you received, or ask its sender."),
    ),
    "session_ended": (
        phrase("Please open your link again"),
        phrase(
            "Only the link that was sent opens the question, not the address of its page. "
            "After a long time, too, the page no longer knows that you came by your link. "
            "Nothing was recorded."
        ),
        phrase(
            "Open the link from the message you received; what you saved is still there. "
            "If that leads here again, let your browser keep cookies of this site."
        ),
    ),
    "signed_out": (
        phrase("Please sign in again"),
        phrase("You are no longer signed in, or this page had been open for too long. Nothing was recorded."),
        phrase("Go to the inbox and do it once more."),
    ),
    "not_found": (
        phrase("There is nothing here"),
        phrase("The question may have been answered long ago and tidied away."),
        phrase("Ask the person who sent you here."),
    ),
    "no_page": (
        phrase("There is no page at this address"),
        phrase("The address may have been mistyped, or cut off when it was copied."),
        phrase("Open the link again from the message you received, or ask its sender."),
    ),
    "answered_elsewhere": (
        phrase("Someone else was first"),
        phrase(
            "This question was answered or withdrawn while you had it open. Your answer was not recorded."
        ),
        phrase("See what became of it."),
    ),
    "too_late": (
        phrase("This came too late"),
        phrase("The time for this question ran out before your answer arrived. It was not recorded."),
        phrase("See what happens now."),
    ),
    "content_changed": (
        phrase("This is not what you were shown"),
        phrase(
            "The page you answered does not match the question any more, so your answer was not recorded."
        ),
        phrase("Look at it again and decide anew."),
    ),
    "altered": (
        phrase("This question cannot be shown"),
        phrase("What is stored does not match what was asked, so it cannot be answered. It has been noted."),
        phrase("Ask the person who sent you the link to ask again."),
    ),
    "no_invitation": (
        phrase("This invitation has ended"),
        phrase("It was used already, or it was not used in time. No passkey was created."),
        phrase("Ask the people who invited you for a new one."),
    ),
    "unproven": (
        phrase("This answer needs a proof"),
        phrase(
            "The service that asks requires a proof with the answer, and this page cannot give one. "
            "Nothing was recorded."
        ),
        phrase("Ask the person who sent you here how to give it."),
    ),
    "second_person": (
        phrase("A second person must approve this"),
        phrase(
            "The person who asked cannot approve it, and a link does not show who you are. "
            "Nothing was recorded."
        ),
        phrase("Sign in to the inbox with a key of your own, and answer there."),
    ),
    "outside_frame": (
        phrase("This is decided on a page of its own"),
        phrase("Nothing was recorded. Inside another site, something could cover or move the buttons."),
        phrase("Open the link from the message you received in a tab of your browser."),
    ),
    "unreadable": (
        phrase("This could not be read"),
        phrase("What your browser sent is too long or was cut off on the way. Nothing was recorded."),
        phrase("Go back, shorten what you wrote, and send it again."),
    ),
    "too_busy": (
        phrase("One moment, please"),
        phrase("Too many requests came at once. Nothing was recorded."),
        phrase("Wait a minute, then send it again."),
    ),
    "not_recorded": (
        phrase("Your answer was not recorded"),
        phrase("It could not be stored safely just now, so nothing was kept."),
        phrase("Go back and send it again in a minute. It cannot be counted twice."),
    ),
    "broken": (
        phrase("Something went wrong on our side"),
        phrase("It has been noted. If you have just sent something, it may not have been recorded."),
        phrase("Go back to the question. It shows what was recorded."),
    ),
    "failed": (
        phrase("Something went wrong on our side"),
        phrase("It has been noted. Nothing was recorded."),
        phrase("Wait a minute, then load this page again."),
    ),
}
