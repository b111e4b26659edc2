"""The UI format of a review page (spec 11), and the wrapper for embedded surfaces."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from placet.errors import ValidationFailed
from placet.protocol.addresses import is_secure_or_loopback
from placet.protocol.conversion import convert_input

INTEROP_PROFILE = "hitl-surface-interop/v0.1"
MAX_SURFACES = 50
MAX_NAME_LENGTH = 200

_CASE_ID = re.compile(r"[a-zA-Z0-9_-]{1,200}")


class Surface(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The UI format of the review page; a declaration without content."""

    format: str
    version: str | None = None


class EmbeddedSurface(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One declarative rendering of a case, with the page as fallback."""

    id: str
    format: str
    version: str
    fallback_review_url: str
    payload: Any
    catalog_id: str | None = None


class SurfaceInterop(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The surfaces offered for one case, under the interop profile."""

    profile: str
    case_id: str
    surfaces: tuple[EmbeddedSurface, ...]


def parse_surface(raw: object) -> Surface:
    """Parse a `surface` declaration; raises `ValidationFailed` saying what is wrong."""
    surface = convert_input(raw, Surface, ValidationFailed, "surface")
    _check_name("surface.format", surface.format)
    if surface.version is not None:
        _check_name("surface.version", surface.version)
    return surface


def parse_surface_interop(raw: object) -> SurfaceInterop:
    """Parse a `hitl-surface-interop/v0.1` wrapper; raises `ValidationFailed` saying what is wrong."""
    interop = convert_input(raw, SurfaceInterop, ValidationFailed, "surface_interop")
    _check_interop(interop)
    return interop


def build_surface_interop(case_id: str, surfaces: Sequence[EmbeddedSurface]) -> dict[str, Any]:
    """Return the wrapper as JSON types; raises `ValidationFailed` for an invalid wrapper."""
    interop = SurfaceInterop(profile=INTEROP_PROFILE, case_id=case_id, surfaces=tuple(surfaces))
    _check_interop(interop)
    return _as_json(interop)


def _as_json(interop: SurfaceInterop) -> dict[str, Any]:
    try:
        wrapper: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(interop))
    except (TypeError, ValueError, RecursionError) as misfit:
        raise _build_surface_error("payload", "must be JSON that is not nested too deeply") from misfit
    return wrapper


def _check_interop(interop: SurfaceInterop) -> None:
    if interop.profile != INTEROP_PROFILE:
        raise _build_surface_error("profile", f'must be "{INTEROP_PROFILE}"')
    if not _CASE_ID.fullmatch(interop.case_id):
        raise _build_surface_error("case_id", "takes letters, digits, `_` and `-` only, at most 200")
    if not 1 <= len(interop.surfaces) <= MAX_SURFACES:
        raise _build_surface_error("surfaces", f"must hold 1 to {MAX_SURFACES} surfaces")
    for number, surface in enumerate(interop.surfaces):
        _check_embedded(f"surfaces[{number}]", surface)
    _check_ids(interop.surfaces)


def _check_embedded(path: str, surface: EmbeddedSurface) -> None:
    for name in ("id", "format", "version"):
        _check_name(f"{path}.{name}", getattr(surface, name))
    if surface.catalog_id is not None:
        _check_name(f"{path}.catalog_id", surface.catalog_id)
    if not is_secure_or_loopback(surface.fallback_review_url):
        raise _build_surface_error(
            f"{path}.fallback_review_url", "must be an https URL, or http on localhost"
        )


def _check_ids(surfaces: tuple[EmbeddedSurface, ...]) -> None:
    seen: set[str] = set()
    for number, surface in enumerate(surfaces):
        if surface.id in seen:
            raise _build_surface_error(f"surfaces[{number}].id", "is used by an earlier surface")
        seen.add(surface.id)


def _check_name(path: str, name: str) -> None:
    if not (name.strip() and name.isprintable() and len(name) <= MAX_NAME_LENGTH):
        raise _build_surface_error(path, f"must be 1 to {MAX_NAME_LENGTH} printable characters")


def _build_surface_error(path: str, complaint: str) -> ValidationFailed:
    return ValidationFailed(f"{path} {complaint}.", path=path)
