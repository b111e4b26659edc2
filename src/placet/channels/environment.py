"""Settings of channels that stand in the environment."""

from collections.abc import Iterable, Mapping

from placet.errors import SettingsError


def require(environ: Mapping[str, str], names: Iterable[str], *, purpose: str) -> None:
    """Raise SettingsError naming those of these variables that are missing or empty."""
    missing = [name for name in names if not environ.get(name)]
    if missing:
        raise SettingsError(f"Set {' and '.join(missing)} to {purpose}.")
