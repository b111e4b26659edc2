"""Frameworks that cannot share an environment with the other tests: `make compat` runs these tests."""

import os
import tempfile
import warnings
from importlib import import_module
from pathlib import Path

from placet.extras import is_available
from scripts.compat import OWN_ENVIRONMENT

collect_ignore = [
    path.name
    for extra in OWN_ENVIRONMENT
    if not is_available(extra)
    for path in Path(__file__).parent.glob(f"test_{extra.replace('-', '_')}*.py")
]

if is_available("crewai"):
    os.environ.update(
        CREWAI_DISABLE_TELEMETRY="true",
        CREWAI_STORAGE_DIR=tempfile.mkdtemp(prefix="crewai-"),
        CREWAI_TRACING_ENABLED="false",
        OTEL_SDK_DISABLED="true",
    )
    with warnings.catch_warnings(action="ignore"):  # it warns when it is imported
        import_module("crewai")
