"""Check the environment variables that channels need."""

from collections.abc import Iterable, Mapping

from placet.errors import SettingsError


def require_variables(environ: Mapping[str, str], names: Iterable[str], *, purpose: str) -> None:
    """Raise SettingsError naming the variables that are missing or empty."""
    missing = [name for name in names if not environ.get(name)]
    if missing:
        raise SettingsError(f"Set {' and '.join(missing)} to {purpose}.")
