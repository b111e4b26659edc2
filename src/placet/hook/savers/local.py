"""The saver of programs that store threads on their own disk and do not choose an engine."""

from pathlib import Path

from placet.hook.savers.sqlite import SqliteSaver


def open_local_saver(path: Path) -> SqliteSaver:
    """Return a durable saver in a file; raise SettingsError if the file cannot be used."""
    return SqliteSaver(path)
