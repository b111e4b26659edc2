"""Generate parts of the docs from the code: `python -m scripts.draw_docs`; `--check` only compares."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts import (
    draw_api,
    draw_audit,
    draw_commands,
    draw_errors,
    draw_ledger,
    draw_limits,
    draw_machine,
    draw_protocol,
    draw_python,
    draw_relay_api,
    draw_relay_states,
    draw_settings,
    draw_tree,
)
from scripts.drawing import ROOT, part_names, replace_parts

DRAWINGS: Mapping[str, Callable[[], str]] = {
    "settings": draw_settings.draw,
    "discovery-settings": draw_settings.draw_discovery,
    "notify-settings": draw_settings.draw_notify,
    "relay-settings": draw_settings.draw_relay,
    "verification-settings": draw_settings.draw_verification,
    "relay-routes": draw_relay_api.draw_routes,
    "relay-shapes": draw_relay_api.draw_shapes,
    "wire-errors": draw_errors.draw_wire,
    "local-errors": draw_errors.draw_local,
    "commands": draw_commands.draw,
    "routes": draw_api.draw_routes,
    "shapes": draw_api.draw_shapes,
    "limits": draw_limits.draw,
    "audit-types": draw_audit.draw_types,
    "audit-outcomes": draw_audit.draw_actions,
    "audit-fields": draw_audit.draw_fields,
    "audit-payload": draw_audit.draw_payload,
    "windows": draw_protocol.draw_windows,
    "schedule": draw_protocol.draw_schedule,
    "field-problems": draw_protocol.draw_field_problems,
    "python": draw_python.draw,
    "python-agent": draw_python.draw_agent,
    "tree": draw_tree.draw_tree,
    "layers": draw_tree.draw_layers,
    "relay-tree": draw_tree.draw_relay_tree,
    "relay-layers": draw_tree.draw_relay_layers,
    "decisions": draw_tree.draw_decisions,
    "task-states": draw_relay_states.draw_task,
    "hold-states": draw_relay_states.draw_hold,
}


# Pages that one function generates as a whole.
WHOLE: Mapping[Path, Callable[[str], str]] = {
    draw_machine.PAGE: draw_machine.draw_page,
    ROOT / draw_ledger.PAGE: lambda _: draw_ledger.draw(),
}


def list_generated_pages() -> list[Path]:
    """Return the pages that are generated, wholly or in part."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in pages if page in WHOLE or part_names(page.read_text("utf-8"))]


def generate_page(page: Path) -> str:
    """Return the text that the page should have."""
    text = page.read_text("utf-8")
    if page in WHOLE:
        return WHOLE[page](text)
    return replace_parts(text, {name: DRAWINGS[name]() for name in part_names(text)})


def main() -> None:
    stale = [page for page in list_generated_pages() if page.read_text("utf-8") != generate_page(page)]
    for page in stale:
        print(f"{'stale' if '--check' in sys.argv else 'rewritten'}: {page.relative_to(ROOT)}")
        if "--check" not in sys.argv:
            page.write_text(generate_page(page), "utf-8")
    if stale and "--check" in sys.argv:
        sys.exit("Run `python -m scripts.draw_docs`.")


if __name__ == "__main__":
    main()
