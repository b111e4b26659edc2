"""What WhatsApp accepts in a message according to its documentation, and a check of messages against it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from placet.channels.texts import fits_link_button
from placet.text.truncation import count_utf16_units

BUTTONS = 3
BUTTON_TITLE = 20
BUTTON_ID = 256
HEADER = 60
FOOTER = 60
INTERACTIVE_BODY = 1024
TEXT_BODY = 4096
TEMPLATE_BODY = 1024
TEMPLATE_WORDS = 140
"""What is kept free for the template's own words, which count too."""
LONGEST_LINK = 2048

_BROKEN_PARAMETER = re.compile(r"[\n\t]| {5,}")


def is_linkable(url: str) -> bool:
    """Return whether a button can link there: an https:// URL whose host has a dot in its name."""
    return fits_link_button(url, LONGEST_LINK, schemes=("https",))


def find_violations(body: Mapping[str, Any]) -> list[str]:
    """List what WhatsApp would refuse in a message."""
    readers = {
        "text": _text_violations,
        "interactive": _interactive_violations,
        "template": _template_violations,
    }
    kind = body.get("type")
    if kind not in readers or not isinstance(body.get(kind), Mapping):
        return ["this is no kind of message that we send"]
    return list(readers[kind](body[kind]))


def _text_violations(text: Mapping[str, Any]) -> Iterable[str]:
    yield from _part_violations("the text", text.get("body", ""), TEXT_BODY)
    if text.get("preview_url") is not False:
        yield "a preview of the link would be fetched"


def _interactive_violations(message: Mapping[str, Any]) -> Iterable[str]:
    yield from _part_violations("the body", message.get("body", {}).get("text", ""), INTERACTIVE_BODY)
    if "header" in message:
        yield from _part_violations("the header", message["header"].get("text", ""), HEADER)
    if "footer" in message:
        yield from _part_violations("the footer", message["footer"].get("text", ""), FOOTER)
    if message.get("type") == "cta_url":
        yield from _link_violations(message["action"])
    elif message.get("type") == "button":
        yield from _reply_violations(message["action"].get("buttons", []))
    else:
        yield "this is no kind of interactive message that we send"


def _link_violations(action: Mapping[str, Any]) -> Iterable[str]:
    yield from _part_violations("the link's label", action["parameters"]["display_text"], BUTTON_TITLE)
    if action.get("name") != "cta_url" or not is_linkable(action["parameters"]["url"]):
        yield "the link is none that a button takes"


def _reply_violations(buttons: list[Mapping[str, Any]]) -> Iterable[str]:
    if not 0 < len(buttons) <= BUTTONS:
        yield "there are no buttons, or too many"
    replies = [button["reply"] for button in buttons if button.get("type") == "reply"]
    if len(replies) != len(buttons):
        yield "reply buttons stand alone"
    for reply in replies:
        yield from _part_violations("a button's title", reply["title"], BUTTON_TITLE)
        yield from _part_violations("a button's id", reply["id"], BUTTON_ID)
    for name in ("title", "id"):
        if len({reply[name] for reply in replies}) != len(replies):
            yield f"two buttons have the same {name}"


def _template_violations(template: Mapping[str, Any]) -> Iterable[str]:
    parameters = [one for part in template["components"] for one in part["parameters"]]
    texts = [parameter["text"] for parameter in parameters]
    if any(not text.strip() or _BROKEN_PARAMETER.search(text) for text in texts):
        yield "a parameter is empty, or has line breaks, tabs or many spaces in it"
    if sum(map(count_utf16_units, texts)) > TEMPLATE_BODY - TEMPLATE_WORDS:
        yield "the parameters are too long"
    if not template.get("name") or not template.get("language", {}).get("code"):
        yield "the template has no name or no language"


def _part_violations(what: str, text: str, most: int) -> Iterable[str]:
    if not text.strip():
        yield f"{what} is empty"
    if count_utf16_units(text) > most:
        yield f"{what} is too long"
