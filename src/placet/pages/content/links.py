"""Decide which URLs may be links, and what to warn the reader about."""

import re
import unicodedata
from itertools import islice
from urllib.parse import SplitResult, urlsplit

import idna

from placet.text.wording import message

MAX_LINK_LENGTH = 2048
MAX_ADDRESSES = 2000
MAX_WARNINGS = 100
REL = 'rel="noopener noreferrer nofollow" referrerpolicy="no-referrer" target="_blank"'

# Most URLs have this plain form, which needs no warning.
_ORDINARY = re.compile(
    r"https://((?!xn--|[a-z0-9.-]*\.xn--)[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,})(/[A-Za-z0-9._~%/?#&=+,:;!$()*@-]*)?"
)
_FORBIDDEN = re.compile(r"[\s\"'<>\\^`{|}]")
_NUMBERS = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+)){0,3}\.?")
_ADDRESSES = re.compile(r"https?://(?:\[[0-9a-f:.]{2,45}\])?[^\s<>\"'()\[\]{}|\\^`]{0,1990}", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?://)?([^\s/?#@]+\.[^\s/?#@.\d][^\s/?#@.]+)(?:[/?#:]\S*)?", re.IGNORECASE)
# Letters of other scripts that look like Latin ones.
_LOOKALIKES = frozenset(
    "аврсегһіїјкӏмноԛѕтԝхуүьԁԍѵᴦабгпαβγεηικμνορτυχωϲϳօոսցհքզնւէյıɑɡɩɪʀʏʟᴀᴄᴇᴊᴋᴍᴏᴛᴜᴠᴡᴢꞓꮯꭺꮋꮇꮲꮪꭲ"
)
_JOINED_SCRIPTS = ({"CJK", "HIRAGANA", "KATAKANA", "LATIN"}, {"CJK", "HANGUL", "LATIN"}, {"CJK", "BOPOMOFO"})


def is_link(text: str) -> bool:
    """Whether this may be a link: https, plain ASCII, no login in front of the host."""
    if not text.startswith("https://") or len(text) > MAX_LINK_LENGTH:
        return False
    if not text.isascii() or not text.isprintable() or _FORBIDDEN.search(text):
        return False
    parts = _split_url(text)
    return parts is not None and bool(parts.hostname) and "@" not in parts.netloc


def find_ordinary_host(text: str) -> str | None:
    """Return the host of a URL that is clearly harmless; None if it needs more checks."""
    found = _ORDINARY.fullmatch(text) if len(text) <= MAX_LINK_LENGTH else None
    return found[1] if found else None


def find_host(text: str) -> str:
    """Return the host of a URL as written, or an empty string."""
    parts = _split_url(text)
    return (parts.hostname or "") if parts else ""


def find_warning(text: str) -> str | None:
    """Return a warning about a URL, or None if it is ordinary."""
    if len(text) > MAX_LINK_LENGTH:
        return None
    parts = _split_url(text)
    if parts is None or not parts.hostname:
        return None
    if "@" in parts.netloc:
        return message(
            "What stands before the @ is no address. This one leads to {host}.", host=parts.hostname
        )
    return find_host_warning(parts.hostname)


def find_warnings(text: str) -> list[str]:
    """Return the warnings about the URLs in a text, each once; only the first URLs are checked."""
    if "://" not in text:
        return []
    found = dict.fromkeys(one[0] for one in islice(_ADDRESSES.finditer(text), MAX_ADDRESSES))
    odd = (said for one in found if not find_ordinary_host(one) and (said := find_warning(one)))
    return list(dict.fromkeys(islice(odd, MAX_WARNINGS)))


def find_host_warning(host: str) -> str | None:
    """Return a warning about a host that is a number, or has foreign or imitating letters."""
    if _NUMBERS.fullmatch(host) or ":" in host:
        return message("This address is a number, not a name: {host}", host=host)
    if host.isascii() and "xn--" not in host:
        return None
    if imitates(_decode_host(host)):
        return message(
            "This address imitates letters of another script: {host}, really {ascii}",
            host=_decode_host(host),
            ascii=_encode_host(host),
        )
    return message(
        "This address is written with special letters: {host}, really {ascii}",
        host=_decode_host(host),
        ascii=_encode_host(host),
    )


def find_disguise(text: str, target: str) -> str | None:
    """Return a warning if the text of a link names another host than the link leads to."""
    shown = _ADDRESS.fullmatch(text.strip()) if len(text) <= MAX_LINK_LENGTH else None
    real = find_host(target)
    if shown is None or not real:
        return None
    claimed = (find_host(text.strip()) or shown[1]).partition(":")[0].lower().rstrip(".")
    if claimed.removeprefix("www.") == real.removeprefix("www."):
        return None
    return message("The text names {claimed}, but the link leads to {host}.", claimed=claimed, host=real)


def imitates(host: str) -> bool:
    """Whether a label of the host mixes scripts or consists of letters that look like Latin ones."""
    return any(_imitates(label) for label in host.split("."))


def _imitates(label: str) -> bool:
    letters = [letter for letter in label.lower() if letter.isalpha() and not letter.isascii()]
    if not letters:
        return False
    scripts = {_find_script(letter) for letter in label.lower() if letter.isalpha()}
    if len(scripts) > 1 and not any(scripts <= joined for joined in _JOINED_SCRIPTS):
        return True
    return all(letter in _LOOKALIKES for letter in letters)


def _find_script(letter: str) -> str:
    return unicodedata.name(letter, "UNKNOWN").split(" ", 1)[0].split("-", 1)[0]


def _decode_host(host: str) -> str:
    try:
        return idna.decode(host)
    except (idna.IDNAError, UnicodeError):
        return host


def _encode_host(host: str) -> str:
    try:
        return idna.encode(host).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        return host


def _split_url(text: str) -> SplitResult | None:
    if not text.lower().startswith(("https://", "http://")):
        return None
    try:
        parts = urlsplit(text)
        _ = parts.hostname, parts.port
    except ValueError:
        return None
    return parts
