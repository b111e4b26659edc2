"""`make gallery`: every page in every state, theme, width and language, photographed onto one HTML sheet."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from playwright.async_api import Browser, async_playwright

from placet.pages.languages import LANGUAGES, languages
from scripts import browser as chromium
from tests.conftest import BROWSER_FLAGS
from tests.pages.gallery import every_page, heavy_pages, offer_of, rendered, review_view
from tests.pages.site import Site, serving

FOLDER = Path("build/gallery")
SHEET = Path(__file__).with_name("gallery_sheet.html")
WIDTHS = {"phone": (390, 844), "desk": (1280, 900)}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
TALLEST = 6000  # of a very long page the beginning is enough to see what it looks like
AT_ONCE = 4
LOAD_WITHIN_MS = 60_000


class Shot(Struct, frozen=True, kw_only=True):
    """One photograph: which page, in which language, on which screen, in which light."""

    page: str
    language: str
    width: str
    theme: Literal["light", "dark"]

    @property
    def file(self) -> str:
        """Where it is kept, below the sheet."""
        return f"{self.language}/{self.page}-{self.width}-{self.theme}.jpg"


def main() -> None:
    """Photograph, write the sheet, say where it is."""
    options = parse_arguments(sys.argv[1:])
    began = time.monotonic()
    pages = collect(options)
    if not pages:
        sys.exit("gallery: no page is called that")
    shots = [
        Shot(page=name, language=code, width=width, theme=theme)
        for code, named in pages.items()
        for name in named
        for width in options.width
        for theme in options.theme
    ]
    served = {f"{code}/{name}": html for code, named in pages.items() for name, html in named.items()}
    with serving(served) as site:
        asyncio.run(take_shots(site, shots))
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "index.html").write_text(build_sheet(shots), encoding="utf-8")
    print(f"{len(shots):,} pictures in {time.monotonic() - began:.0f} s: {FOLDER / 'index.html'}")


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Which pages, languages, widths and themes; all of them if nothing is said."""
    parser = argparse.ArgumentParser(prog="gallery", description="Photograph every page onto one HTML sheet.")
    parser.add_argument("--only", default="", help="pages whose name holds this, such as approval")
    parser.add_argument("--language", nargs="+", default=list(LANGUAGES), choices=list(LANGUAGES))
    parser.add_argument("--width", nargs="+", default=list(WIDTHS), choices=list(WIDTHS))
    parser.add_argument("--theme", nargs="+", default=list(THEMES), choices=list(THEMES))
    parser.add_argument("--examples", type=Path, help="a folder of JSON files whose cases are shown too")
    return parser.parse_args(arguments)


def collect(options: argparse.Namespace) -> dict[str, dict[str, str]]:
    """The pages of each language by name; what is heavy or from elsewhere in the first language alone."""
    found: dict[str, dict[str, str]] = {}
    for place, code in enumerate(options.language):
        pages = every_page(languages().get(code))
        if place == 0:
            pages |= heavy_pages(languages().get(code))
            pages |= dict(load_example_pages(options.examples)) if options.examples else {}
        chosen = {name: html for name, html in pages.items() if options.only in name}
        found |= {code: chosen} if chosen else {}
    return found


def load_example_pages(folder: Path) -> Iterator[tuple[str, str]]:
    """Every case that the files of a folder hold: objects with a type, a prompt and a context."""
    for file in sorted(folder.glob("*.json")):
        for number, body in enumerate(_cases(msgspec.json.decode(file.read_bytes()))):
            offer = offer_of({"service": body.get("service_name"), **body})
            yield f"example-{file.stem}-{number}", rendered(review_view(offer))


def _cases(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if {"type", "prompt", "context"} <= value.keys() and isinstance(value["context"], dict):
            yield value
        for part in value.values():
            yield from _cases(part)
    elif isinstance(value, list):
        for part in value:
            yield from _cases(part)


async def take_shots(site: Site, shots: Sequence[Shot]) -> None:
    """All shots, several at once; each page is opened once for all its widths and themes."""
    waiting: dict[tuple[str, str], list[Shot]] = {}
    for shot in shots:
        waiting.setdefault((shot.language, shot.page), []).append(shot)
    queue = list(waiting.values())
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium.find(), args=BROWSER_FLAGS)
        await asyncio.gather(*(_work(browser, site, queue) for _ in range(AT_ONCE)))
        await browser.close()


async def _work(browser: Browser, site: Site, queue: list[list[Shot]]) -> None:
    context = await browser.new_context(reduced_motion="reduce")
    page = await context.new_page()
    while queue:
        shots = queue.pop()
        address = f"{site.address}/{shots[0].language}/{shots[0].page}"
        await page.set_viewport_size({"width": 390, "height": 844})
        await page.goto(address, timeout=LOAD_WITHIN_MS)
        for shot in shots:
            width, height = WIDTHS[shot.width]
            await page.set_viewport_size({"width": width, "height": height})
            await page.emulate_media(color_scheme=shot.theme)
            tall = min(await page.evaluate("document.documentElement.scrollHeight"), TALLEST)
            # In a window as tall as the page, what sticks to its bottom stands where the page ends.
            await page.set_viewport_size({"width": width, "height": max(height, tall)})
            file = FOLDER / shot.file
            file.parent.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=file, type="jpeg", quality=70, timeout=LOAD_WITHIN_MS)
    await context.close()


def build_sheet(shots: Sequence[Shot]) -> str:
    """The sheet: one row for each page, filtered by the boxes at its top."""
    rows: dict[str, list[Shot]] = {}
    for shot in shots:
        rows.setdefault(shot.page, []).append(shot)
    drawn = "\n".join(_row(page, of_page) for page, of_page in rows.items())
    choices: dict[str, list[str]] = {
        "language": list(dict.fromkeys(shot.language for shot in shots)),
        "width": list(dict.fromkeys(shot.width for shot in shots)),
        "theme": list(dict.fromkeys(shot.theme for shot in shots)),
    }
    filters = "\n".join(_filter(name, values) for name, values in choices.items())
    return SHEET.read_text().replace("<!-- filters -->", filters).replace("<!-- rows -->", drawn)


def _filter(name: str, values: Sequence[str]) -> str:
    boxes = "".join(
        f'<label><input type="checkbox" name="{name}" value="{value}" checked> {value}</label>'
        for value in values
    )
    return f"<fieldset><legend>{name}</legend>{boxes}</fieldset>"


def _row(page: str, shots: Sequence[Shot]) -> str:
    pictures = "".join(
        f'<figure data-language="{shot.language}" data-width="{shot.width}" data-theme="{shot.theme}">'
        f'<a href="{escape(shot.file)}"><img src="{escape(shot.file)}" loading="lazy" alt=""></a>'
        f"<figcaption>{shot.language}, {shot.width}, {shot.theme}</figcaption></figure>"
        for shot in shots
    )
    name = escape(page)
    return f'<section id="{name}"><h2><a href="#{name}">{name}</a></h2><div>{pictures}</div></section>'


if __name__ == "__main__":
    main()
