"""Imports every module; prints, as JSON, which extra each of the others needs, and other failures."""

import importlib
import json
import sys
from pathlib import Path

import placet
from placet.errors import MissingExtra

root = Path(placet.__file__).parent
needed: dict[str, str] = {}
failed: dict[str, str] = {}
for path in sorted(root.rglob("*.py")):
    parts = path.relative_to(root.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        importlib.import_module(name)
    except MissingExtra as error:
        needed[name] = error.extra
    except ImportError as error:
        if error.name != "pytest":  # the contract suites are for test runs
            failed[name] = str(error)
json.dump({"needed": needed, "failed": failed}, sys.stdout)
