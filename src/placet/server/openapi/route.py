"""One route of the API as data: what it takes, what it answers, how it refuses."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from placet.errors import (
    BodyTooLarge,
    InvalidJson,
    InvalidToken,
    NotPermitted,
    PlacetError,
    Unavailable,
    ValidationFailed,
)
from placet.server.case_api import MAX_PAGE

JSON = "application/json"
STORE_ERRORS = (Unavailable,)
KEY_ERRORS = (InvalidToken, NotPermitted, *STORE_ERRORS)
BODY_ERRORS = (InvalidJson, ValidationFailed, BodyTooLarge)

Credential = Literal["apiKey", "submitToken", "apiKeyOrNone", "none"]


class Parameter(Struct, frozen=True, kw_only=True):
    """One value in the path, the query or a header."""

    name: str
    where: Literal["path", "query", "header"]
    type: Any
    about: str


class Body(Struct, frozen=True, kw_only=True):
    """What a request carries, with examples by name."""

    model: Any
    about: str
    examples: Mapping[str, Any]
    required: bool = True
    rules: tuple[Mapping[str, Any], ...] = ()


class Reply(Struct, frozen=True, kw_only=True):
    """One way in which a request succeeds; `headers` are always sent, `some_headers` sometimes."""

    status: int
    about: str
    model: Any = None
    media: str = JSON
    headers: tuple[str, ...] = ()
    some_headers: tuple[str, ...] = ()
    examples: Mapping[str, Any] = {}


class Route(Struct, frozen=True, kw_only=True):
    """Method and path, in a newcomer's words."""

    method: Literal["get", "post", "put", "delete"]
    path: str
    name: str
    tag: str
    summary: str
    about: str
    credential: Credential = "apiKey"
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    replies: tuple[Reply, ...]
    errors: tuple[type[PlacetError], ...] = ()


LIMIT = Parameter(
    name="limit",
    where="query",
    type=Annotated[int, Meta(ge=1, le=MAX_PAGE)],
    about="How many to list; 50 unless you say so.",
)
