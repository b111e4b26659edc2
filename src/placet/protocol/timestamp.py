"""A moment on the wire: a timestamp that names its time zone, so that it means the same everywhere."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

Timestamp = Annotated[datetime, Meta(tz=True)]
