"""Frameworks that cannot share an environment with the other tests: `make compat` runs these tests."""

from pathlib import Path

from placet.extras import is_available
from scripts.compat import OWN_ENVIRONMENT

collect_ignore = [
    path.name
    for extra in OWN_ENVIRONMENT
    if not is_available(extra)
    for path in Path(__file__).parent.glob(f"test_{extra.replace('-', '_')}*.py")
]
