"""Our own words: every text of the pages passes through a language, so that catalogs can translate it."""

from collections.abc import Mapping

ASKS: Mapping[str, str] = {
    "approval": "asks for your approval",
    "selection": "asks you to choose",
    "input": "asks you for information",
    "confirmation": "asks you to confirm",
    "escalation": "asks you how to go on",
}
ASKS_SOMETHING = "asks for your decision"

IF_YES: Mapping[str, tuple[str, str]] = {
    "approval": ("If you approve", "It goes ahead exactly as it is shown here."),
    "selection": ("When you choose", "What you choose is used, and nothing else."),
    "input": ("When you answer", "Your answers go to {service}."),
    "confirmation": ("If you confirm", "It is done at once."),
    "escalation": ("When you decide", "It is tried again, left out, or stopped, as you say."),
}
IF_ANSWERED = ("When you answer", "Your answer goes to {service}.")

IF_SILENT: Mapping[str, str] = {
    "skip": "This step is left out.",
    "reject": "It counts as a no.",
    "abort": "The agent is told to stop.",
    "approve": "It counts as a yes, because {service} asked for that.",
}

ACTIONS: Mapping[str, str] = {
    "approve": "Approve",
    "edit": "Request changes",
    "reject": "Reject",
    "select": "Send my choice",
    "submit": "Send my answers",
    "confirm": "Confirm",
    "cancel": "Do not do it",
    "retry": "Try again",
    "skip": "Skip this step",
    "abort": "Stop",
}
ANSWERED: Mapping[str, str] = {
    "approve": "Approved",
    "edit": "Changes requested",
    "reject": "Rejected",
    "select": "Chosen",
    "submit": "Answered",
    "confirm": "Confirmed",
    "cancel": "Not to be done",
    "retry": "Try again",
    "skip": "Skip this step",
    "abort": "Stop",
}
AFTERWARDS: Mapping[str, str] = {
    "approve": "It goes ahead exactly as it was shown.",
    "edit": "The changes go back to whoever made it. A new version comes to you as a new question.",
    "reject": "It does not go ahead.",
    "select": "What was chosen is used from here on.",
    "submit": "The answers are used from here on.",
    "confirm": "It is being done.",
    "cancel": "It is not done.",
    "retry": "It is tried again.",
    "skip": "The step is left out, and the rest goes on.",
    "abort": "The work stops here.",
}

FIELDS: Mapping[str, str] = {
    "selected": "Your choice",
    "confirmed_items": "Items to confirm",
    "confirm_word": "Typed confirmation",
    "feedback": "Feedback",
    "edits": "Your changes",
    "modified_params": "Changed parameters",
    "reason": "Reason",
    "note": "Note",
    "answer": "Your answer",
}

NOTICES: Mapping[str, str] = {
    "more_asked": "Your answer brings up one more question. Nothing is lost.",
    "saved": "What you typed so far is kept. You can close this page and go on later by the same link.",
}

# Messages whose next step is the page of the question.
LEADS_BACK = frozenset({"answered_elsewhere", "too_late", "content_changed", "too_busy", "not_recorded"})

# Title, what happened, and the one thing to do next.
MESSAGES: Mapping[str, tuple[str, str, str]] = {
    "wrong_link": (
        "This link does not open anything",
        "It may have been cut off when it was copied, or it belongs to another question.",
        "Open the link again from the message you received, or ask whoever sent it.",
    ),
    "session_ended": (
        "Please open your link again",
        "This page was open for a long time, so it no longer knows that you came by your link. "
        "Nothing was recorded.",
        "Open the link from the message you received; what you saved is still there.",
    ),
    "not_found": (
        "There is nothing here",
        "The question may have been answered long ago and tidied away.",
        "Ask whoever sent you here.",
    ),
    "answered_elsewhere": (
        "Someone else was first",
        "This question was answered or withdrawn while you had it open. Your answer was not recorded.",
        "See what became of it.",
    ),
    "too_late": (
        "This came too late",
        "The time for this question ran out before your answer arrived. It was not recorded.",
        "See what happens now.",
    ),
    "content_changed": (
        "This is not what you were shown",
        "The page you answered does not match the question any more, so your answer was not recorded.",
        "Look at it again and decide anew.",
    ),
    "unreadable": (
        "This could not be read",
        "What your browser sent is too long or was cut off on the way. Nothing was recorded.",
        "Go back, shorten what you wrote, and send it again.",
    ),
    "too_busy": (
        "One moment, please",
        "Too many requests came at once. Nothing was recorded.",
        "Wait a minute, then send it again.",
    ),
    "not_recorded": (
        "Your answer was not recorded",
        "It could not be stored safely just now, so nothing was kept.",
        "Go back and send it again in a minute. It cannot be counted twice.",
    ),
}
