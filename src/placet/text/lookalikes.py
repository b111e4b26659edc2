"""Whether a person could take one name for another.

Not a full table of lookalikes (Unicode Technical Standard 39 has thousands): differences of case, width, and
spaces, the dashes, slashes, colons and quotation marks, the letters of Cyrillic, Greek, Armenian, Cherokee
and Lisu that look like Latin ones, small capitals, and the digits that look like letters.
"""

import re
import unicodedata

_SPACES = re.compile(r"\s+")
LETTERS = str.maketrans(
    "АВЕЅІЈКМНОРСТУХҮԌԚԜаеѕіјоԛрсухԝһӏԁѵүАΑΒΕΖΗΙΚΜΝΟΡΤΥΧορναιıɑɡ‐–—−‘’ʼ“”"  # noqa: RUF001
    "ςкмтнՕօսհոցզՍ∕⁄∶꞉⁃˗`ʹ℮"  # noqa: RUF001
    "ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏃᏒᏔᏕᏙᏚᏞᏟᏢᏦᏴ"  # noqa: RUF001
    "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ"  # noqa: RUF001
    "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ",
    "ABESIJKMHOPCTYXYGQWaesijoqpcyxwhldvyAABEZHIKMNOPTYXopvaiiag----'''\"\""
    "ckmthOouhngqU//::--''e"
    "DRTiAJEWMHYGZRWSVSLCPKB"
    "BPDTGKJCZFMNLSRVHWXYAEIOU"
    "abcdefghijklmnoprstuvwyz",
)
"""Maps code points to the code points of the Latin letters or ASCII signs that they look like."""
_DIGITS = str.maketrans("I1|0", "lllO")


def look_alike(one: str, other: str) -> bool:
    """Return whether two names are equal but for their case, or for signs that look like each other."""
    return not _read(one).isdisjoint(_read(other))


def fold_name(name: str) -> str:
    """Return the name without differences of case, width and spaces, and with lookalikes as Latin letters."""
    return _to_latin(name).casefold()


def _read(name: str) -> set[str]:
    # Two readings, since `I` looks like `l`, and `i` does not.
    return {fold_name(name), _to_latin(name).translate(_DIGITS)}


def _to_latin(name: str) -> str:
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", name).strip()).translate(LETTERS)
