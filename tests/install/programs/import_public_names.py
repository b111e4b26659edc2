"""Imports every public name; prints, as JSON, the errors of those that need an extra."""

import importlib
import json
import sys

from placet.errors import MissingExtra

PACKAGES = ("placet", "placet.agent", "placet.hook", "placet.channels", "placet.signing")
refused: dict[str, str] = {}
for package in PACKAGES:
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", ()):
        try:
            getattr(module, name)
        except MissingExtra as error:
            refused[f"{package}.{name}"] = str(error)
json.dump(refused, sys.stdout)
