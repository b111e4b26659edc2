"""The type of timestamps on the wire, which always have a time zone."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta

Timestamp = Annotated[datetime, Meta(tz=True)]
