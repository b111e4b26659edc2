"""Read a service's theme from a folder: name, logo, colours, styles, templates and languages."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, TemplateSyntaxError
from msgspec import Struct

from placet.errors import SettingsError
from placet.pages.assets import STYLESHEET, read_assets
from placet.pages.languages import Languages, languages

LOGOS = {"logo.svg": "image/svg+xml", "logo.png": "image/png"}
MAX_LOGO_BYTES = 64 * 1024
MAX_NAME_LENGTH = 80
COLOUR_SCHEMES = ("light", "dark")
_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_VARIABLE = re.compile(r"--([a-z-]+):(#[0-9a-f]{6})[;}]")

# WCAG 2.2, 1.4.3 and 1.4.11: which colours are used together, and the contrast they need.
CONTRASTS = (
    *(("ink", ground, 4.5) for ground in ("paper", "fence", "card")),
    *(("quiet", ground, 4.5) for ground in ("paper", "fence", "card")),
    *(("accent", ground, 4.5) for ground in ("paper", "fence", "card")),
    ("on_accent", "accent", 4.5),
    ("warn", "warn_paper", 4.5),
    ("wrong", "wrong_paper", 4.5),
    ("wrong", "paper", 4.5),
    ("wrong", "fence", 4.5),
    ("ink", "warn_paper", 4.5),
    ("ink", "wrong_paper", 4.5),
    ("edge", "paper", 3.0),
    ("edge", "card", 3.0),
)


class Theme(Struct, frozen=True, kw_only=True):
    """How the pages of one service are styled; the defaults are the built-in pages."""

    name: str | None = None
    logo: str | None = None
    files: Mapping[str, bytes]
    templates: Path | None = None
    languages: Languages


def load_built_in_theme() -> Theme:
    """Return the built-in theme."""
    return Theme(files=read_assets(), languages=languages())


def read_theme(folder: Path) -> Theme:
    """Return the theme in a folder; raise SettingsError if something in it is invalid."""
    if not folder.is_dir():
        raise SettingsError(f"theme: {str(folder)!r} is not a folder.")
    settings = _read_settings(folder / "theme.toml")
    logo = _read_logo(folder)
    colours = {scheme: _read_colours(settings.pop(scheme, {}), scheme) for scheme in COLOUR_SCHEMES}
    name = settings.pop("name", None)
    if name is not None and (not isinstance(name, str) or not 0 < len(name.strip()) <= MAX_NAME_LENGTH):
        raise SettingsError(f"theme.toml: name must be a text of 1 to {MAX_NAME_LENGTH} characters.")
    if settings:
        raise SettingsError(f"theme.toml: unknown setting {next(iter(settings))!r}. Use name, light or dark.")
    style = b"\n".join(
        [read_assets()[STYLESHEET], _format_variables(colours).encode(), _read_bytes(folder / "style.css")]
    )
    files = {**read_assets(), STYLESHEET: style}
    if logo is not None:
        files[logo] = _read_bytes(folder / logo, MAX_LOGO_BYTES)
    return Theme(
        name=name,
        logo=logo,
        files=files,
        templates=_read_templates(folder / "templates"),
        languages=_read_languages(folder / "languages"),
    )


def calculate_contrast(one: str, other: str) -> float:
    """Return the WCAG contrast ratio of two colours, from 1 to 21."""
    lighter, darker = sorted((_compute_luminance(one), _compute_luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def read_built_in_colours() -> dict[str, dict[str, str]]:
    """Return the colours of the built-in stylesheet for each colour scheme."""
    light, dark = read_assets()[STYLESHEET].decode().split("prefers-color-scheme:dark", 1)
    read = [dict(_VARIABLE.findall(part)) for part in (light, dark.partition("*,")[0])]
    return {
        scheme: {name.replace("-", "_"): value for name, value in found.items()}
        for scheme, found in zip(COLOUR_SCHEMES, read, strict=True)
    }


def _read_settings(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_read_bytes(file).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is not valid TOML: {error}.") from error


def _read_colours(given: object, scheme: str) -> dict[str, str]:
    """Return the colours set for a scheme; raise SettingsError if they are invalid or lack contrast."""
    ours = read_built_in_colours()[scheme]
    if not isinstance(given, dict):
        raise SettingsError(f"theme.toml: {scheme} must be a table of colours.")
    for name, value in given.items():
        if name not in ours:
            raise SettingsError(f"theme.toml: {scheme} has no colour {name!r}; it has {', '.join(ours)}.")
        if not isinstance(value, str) or not _HEX.fullmatch(value):
            raise SettingsError(f"theme.toml: {scheme}.{name} must be a colour such as #1d5c42.")
    if "accent" in given and "on_accent" not in given:
        given = {
            **given,
            "on_accent": max("#000000", "#ffffff", key=lambda ink: calculate_contrast(ink, given["accent"])),
        }
    effective = {**ours, **given}
    for ink, ground, least in CONTRASTS:
        found = calculate_contrast(effective[ink], effective[ground])
        if found < least and (ink in given or ground in given):
            raise SettingsError(
                f"theme.toml: {scheme}.{ink} on {ground} has a contrast of {found:.1f}. Use at least {least}."
            )
    return given


def _format_variables(colours: Mapping[str, Mapping[str, str]]) -> str:
    light, dark = (
        "".join(f"--{name.replace('_', '-')}:{value};" for name, value in colours[scheme].items())
        for scheme in COLOUR_SCHEMES
    )
    return "".join(
        f"@media (prefers-color-scheme:{scheme}){{:root{{{values}}}}}"
        for scheme, values in (("light", light), ("dark", dark))
        if values
    )


def _read_logo(folder: Path) -> str | None:
    found = [name for name in LOGOS if (folder / name).is_file()]
    if len(found) > 1:
        raise SettingsError(f"{folder}: there are two logos, {' and '.join(found)}; keep one.")
    return found[0] if found else None


def _read_templates(folder: Path) -> Path | None:
    """Return the folder after checking that every template in it can be parsed."""
    if not folder.is_dir():
        return None
    for file in sorted(folder.rglob("*.html")):
        try:
            Environment(autoescape=True).parse(_read_bytes(file).decode())
        except (TemplateSyntaxError, UnicodeDecodeError) as error:
            raise SettingsError(f"{file} cannot be used: {error}.") from error
    return folder


def _read_languages(folder: Path) -> Languages:
    try:
        return Languages(folder) if folder.is_dir() else languages()
    except ValueError as error:
        raise SettingsError(f"theme: {error}.") from error


def _read_bytes(file: Path, most: int | None = None) -> bytes:
    """Return a file's content, empty if it does not exist."""
    try:
        content = file.read_bytes() if file.is_file() else b""
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}.") from error
    if most is not None and len(content) > most:
        raise SettingsError(f"{file} is larger than {most} bytes.")
    return content


def _compute_luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
