"""The version of a database's schema, and the scripts that migrate it."""

from collections.abc import Mapping
from importlib.resources.abc import Traversable

from msgspec import Struct


class SchemaState(Struct, frozen=True, kw_only=True):
    """The schema version of a database, and the newest that this version of Placet knows."""

    version: int
    known: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been written yet."""
        return self.version == 0

    @property
    def is_current(self) -> bool:
        """Whether this version can work with the database as it is."""
        return self.version == self.known


def list_scripts(folder: Traversable) -> Mapping[int, str]:
    """Return the migrations in a folder by their number, in order."""
    scripts = sorted((item.name, item) for item in folder.iterdir() if item.name.endswith(".sql"))
    return {int(name.split("_")[0]): item.read_text("utf-8") for name, item in scripts}
