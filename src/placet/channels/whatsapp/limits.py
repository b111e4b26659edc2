"""What WhatsApp's Cloud API takes, as its documentation says, and a check of messages against it."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from placet.channels.texts import utf16_units

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

WINDOW_CLOSED = frozenset({131047, 470})
"""More than 24 hours since the person last wrote: nothing but a template gets through."""
BUSY = frozenset({4, 80007, 130429, 131048, 131056})
"""Too many calls, messages, or messages to one person."""

_BROKEN_PARAMETER = re.compile(r"[\n\t]| {5,}")


def is_linkable(url: str) -> bool:
    """Whether a button may lead there: an https:// address of a host that has a dot in its name."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    fits = len(url) <= LONGEST_LINK and url.isascii() and url.isprintable() and " " not in url
    return fits and parts.scheme == "https" and "." in host.strip(".")


def misfits(body: Mapping[str, Any]) -> list[str]:
    """What WhatsApp would refuse in a message; nothing if all is well."""
    readers = {"text": _text_misfits, "interactive": _interactive_misfits, "template": _template_misfits}
    kind = body.get("type")
    if kind not in readers or not isinstance(body.get(kind), Mapping):
        return ["this is no kind of message that we send"]
    return list(readers[kind](body[kind]))


def _text_misfits(text: Mapping[str, Any]) -> Iterable[str]:
    yield from _part_misfits("the text", text.get("body", ""), TEXT_BODY)
    if text.get("preview_url") is not False:
        yield "a preview of the link would be fetched"


def _interactive_misfits(message: Mapping[str, Any]) -> Iterable[str]:
    yield from _part_misfits("the body", message.get("body", {}).get("text", ""), INTERACTIVE_BODY)
    if "header" in message:
        yield from _part_misfits("the header", message["header"].get("text", ""), HEADER)
    if "footer" in message:
        yield from _part_misfits("the footer", message["footer"].get("text", ""), FOOTER)
    if message.get("type") == "cta_url":
        yield from _link_misfits(message["action"])
    elif message.get("type") == "button":
        yield from _reply_misfits(message["action"].get("buttons", []))
    else:
        yield "this is no kind of interactive message that we send"


def _link_misfits(action: Mapping[str, Any]) -> Iterable[str]:
    yield from _part_misfits("the link's label", action["parameters"]["display_text"], BUTTON_TITLE)
    if action.get("name") != "cta_url" or not is_linkable(action["parameters"]["url"]):
        yield "the link is none that a button takes"


def _reply_misfits(buttons: list[Mapping[str, Any]]) -> Iterable[str]:
    if not 0 < len(buttons) <= BUTTONS:
        yield "there are no buttons, or too many"
    replies = [button["reply"] for button in buttons if button.get("type") == "reply"]
    if len(replies) != len(buttons):
        yield "reply buttons stand alone"
    for reply in replies:
        yield from _part_misfits("a button's title", reply["title"], BUTTON_TITLE)
        yield from _part_misfits("a button's id", reply["id"], BUTTON_ID)
    for name in ("title", "id"):
        if len({reply[name] for reply in replies}) != len(replies):
            yield f"two buttons have the same {name}"


def _template_misfits(template: Mapping[str, Any]) -> Iterable[str]:
    parameters = [one for part in template["components"] for one in part["parameters"]]
    texts = [parameter["text"] for parameter in parameters]
    if any(not text.strip() or _BROKEN_PARAMETER.search(text) for text in texts):
        yield "a parameter is empty, or has line breaks, tabs or many spaces in it"
    if sum(map(utf16_units, texts)) > TEMPLATE_BODY - TEMPLATE_WORDS:
        yield "the parameters are too long"
    if not template.get("name") or not template.get("language", {}).get("code"):
        yield "the template has no name or no language"


def _part_misfits(what: str, text: str, most: int) -> Iterable[str]:
    if not text.strip():
        yield f"{what} is empty"
    if utf16_units(text) > most:
        yield f"{what} is too long"
