"""The route table: one entry per method and path, from which routing, OpenAPI and the client are made.

A handler declares its route with a decorator of a `RouteGroup`; its docstring is the route's summary and
description. `HttpApi.declared()` reads the table from a class, `HttpApi.routes()` binds it to an object.
"""

import inspect
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import reduce
from operator import or_
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from placet.errors import (
    BodyTooLarge,
    InvalidJson,
    InvalidToken,
    NotPermitted,
    PlacetError,
    SettingsError,
    Unavailable,
    UnsupportedEncoding,
    ValidationFailed,
)
from placet.http.decoding import decode, decode_query
from placet.ports.identity import Principal

JSON = "application/json"
T = TypeVar("T")
S = TypeVar("S", bound=Struct)
Function = TypeVar("Function", bound=Callable[..., Awaitable[Any]])
Method = Literal["GET", "POST", "PUT", "DELETE"]
Credential = Literal["apiKey", "submitToken", "apiKeyOrNone", "none"]
Handling = Literal["operation", "response", "raw", "raw_stream", "mounted"]
CREDENTIAL_ERRORS: Mapping[Credential, tuple[type[PlacetError], ...]] = {
    "apiKey": (InvalidToken, NotPermitted, Unavailable),
    "apiKeyOrNone": (InvalidToken, NotPermitted, Unavailable),
    "submitToken": (InvalidToken, Unavailable),
    "none": (),
}
BODY_ERRORS = (InvalidJson, ValidationFailed, BodyTooLarge, UnsupportedEncoding)
_VARIABLE = re.compile(r"{(\w+)(:path)?}")
_DECLARED = "__routes__"


async def _refuse_without_handler(*_: Any) -> Any:
    raise NotImplementedError("This route has no handler here; bind it with HttpApi.routes().")


class Parameter(Struct, frozen=True, kw_only=True):
    """One value in the path, the query or a header."""

    name: str
    location: Literal["path", "query", "header"]
    type: Any
    description: str


class RequestBody(Struct, frozen=True, kw_only=True):
    """What a request carries, with examples by name."""

    model: Any
    description: str
    examples: Mapping[str, Any] = {}
    required: bool = True
    rules: tuple[Mapping[str, Any], ...] = ()
    """JSON Schema that the model cannot express."""


class RouteReply(Struct, frozen=True, kw_only=True):
    """One way in which a request succeeds; `headers` are always sent, `optional_headers` sometimes."""

    status: int = 200
    description: str = "Done."
    model: Any = None
    media: str = JSON
    headers: tuple[str, ...] = ()
    optional_headers: tuple[str, ...] = ()
    examples: Mapping[str, Any] = {}


class ApiRequest(Struct, frozen=True, kw_only=True):
    """What the handler of an operation receives."""

    principal: Principal
    path: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    body: bytes = b""
    if_match: str | None = None
    """The If-Match header as it was sent."""

    def read_body(self, model: type[T]) -> T:
        """Return the body as this model; raise InvalidJson or ValidationFailed."""
        return decode(msgspec.json.Decoder(model), self.body)

    def read_query(self, model: type[S]) -> S:
        """Return the query as this model; raise ValidationFailed."""
        return decode_query(self.query, model)


class ApiStream(Struct, frozen=True, kw_only=True):
    """A reply of any length, sent in pieces no faster than the client reads them.

    The first piece is produced before the status is sent, so that an error in it is still a proper error
    reply; an error in a later piece breaks the connection.
    """

    pieces: AsyncIterator[bytes]
    media: str = "application/x-ndjson"
    filename: str | None = None
    """The name under which a browser saves it."""


class Route(Struct, frozen=True, kw_only=True):
    """One method at one path."""

    method: Method
    path: str
    name: str
    """The operation id, such as `listApprovals`; unique."""
    tag: str | None = None
    """The heading in the API description; None for pages and files, which are not part of the API."""
    summary: str = ""
    description: str = ""
    credential: Credential = "apiKey"
    scope: str | None = None
    """The scope that the API key needs; `check_declared_access` refuses routes without it."""
    permissions: tuple[str, ...] = ()
    """The relay permissions that the member needs."""
    parameters: tuple[Parameter, ...] = ()
    repeatable: tuple[str, ...] = ()
    """Query parameters that may occur several times; their values are joined with commas."""
    body: RequestBody | None = None
    replies: tuple[RouteReply, ...] = ()
    errors: tuple[type[PlacetError], ...] = ()
    handling: Handling = "operation"
    """How `handler` is called: with an ApiRequest (`operation`), with a Starlette request (`response`), or
    as raw ASGI, returning a RawReply (`raw`) or sending it (`raw_stream`). `mounted` has no handler: an ASGI
    application serves every path with this beginning."""
    handler: Callable[..., Awaitable[Any]] = _refuse_without_handler

    @property
    def status(self) -> int:
        """The status of a successful reply."""
        return self.replies[0].status if self.replies else 200

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the path's variables."""
        return list_path_variables(self.path)


class OperationAddress(NamedTuple):
    """The method, path and name of an operation, for a route and for the clients that call it."""

    method: Method
    path: str
    name: str

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the path's variables."""
        return list_path_variables(self.path)

    def url(self, server: str, **variables: str) -> str:
        """Return the URL on this server, with the path's variables quoted."""
        steps = {name: quote(value, safe="") for name, value in variables.items()}
        return server.rstrip("/") + self.path.format(**steps)


class RouteOptions(TypedDict, total=False):
    """What a declaration may say besides method, path and name."""

    description: str
    credential: Credential
    parameters: tuple[Parameter, ...]
    query: type[Struct]
    repeatable: tuple[str, ...]
    body: Any
    reply: Any
    replies: tuple[RouteReply, ...]
    errors: tuple[type[PlacetError], ...]
    handling: Handling
    permissions: tuple[str, ...]


class RouteGroup(Struct, frozen=True, kw_only=True):
    """Routes under one heading: reading needs one scope, writing another."""

    tag: str | None = None
    description: str = ""
    read: str | None = None
    write: str | None = None
    credential: Credential = "apiKey"
    handling: Handling = "operation"

    def declare(
        self,
        address: OperationAddress,
        *,
        created: bool = False,
        read_only: bool = False,
        **options: Unpack[RouteOptions],
    ) -> Callable[[Function], Function]:
        """Declare the route of an operation whose address our clients share.

        `created` replies 201. `read_only` is for a POST that only reads, for a question too long for a query.
        """
        method, path, name = address
        permission = self.read if read_only or method == "GET" else self.write
        return self._declare(method, path, name, permission, 201 if created else 200, options)

    def get(self, path: str, name: str, **options: Unpack[RouteOptions]) -> Callable[[Function], Function]:
        """Declare a GET route."""
        return self._declare("GET", path, name, self.read, 200, options)

    def post(self, path: str, name: str, **options: Unpack[RouteOptions]) -> Callable[[Function], Function]:
        """Declare a POST route."""
        return self._declare("POST", path, name, self.write, 200, options)

    def _declare(
        self, method: Method, path: str, name: str, permission: str | None, status: int, options: RouteOptions
    ) -> Callable[[Function], Function]:
        def declare(function: Function) -> Function:
            summary, details = _read_docstring(function)
            credential = options.get("credential", self.credential)
            declared = options.get("parameters", ())
            route = Route(
                method=method,
                path=path,
                name=name,
                tag=self.tag,
                summary=summary,
                description=" ".join(part for part in (details, options.get("description", "")) if part),
                credential=credential,
                parameters=(*declared, *_list_query_parameters(options.get("query"))),
                repeatable=options.get("repeatable", ()),
                body=_as_body(options.get("body")),
                replies=options.get("replies") or (_as_reply(options.get("reply"), status),),
                errors=options.get("errors", ()),
                handling=options.get("handling", self.handling),
                permissions=options.get("permissions", ()),
                handler=function,
            )
            completed = _with_derived_errors(self.complete(route, permission))
            setattr(function, _DECLARED, (completed, *getattr(function, _DECLARED, ())))
            return function

        return declare

    def complete(self, route: Route, permission: str | None) -> Route:
        """Return the route with what every route of this group has; `permission` is what the caller needs."""
        return replace(route, scope=permission)


pages = RouteGroup(credential="none", handling="response")
"""Pages, their files and their forms: routes that are not part of the API."""


class HttpApi:
    """An object whose methods are declared as routes."""

    @classmethod
    def list_declared_routes(cls) -> tuple[Route, ...]:
        """Return the routes of this class in the order of its methods; their handlers are not bound."""
        return tuple(route for member in vars(cls).values() for route in getattr(member, _DECLARED, ()))

    def routes(self) -> tuple[Route, ...]:
        """Return the routes with this object's handlers."""
        return tuple(
            replace(route, handler=self.wrap_handler(getattr(self, name)))
            for name, member in vars(type(self)).items()
            for route in getattr(member, _DECLARED, ())
        )

    def wrap_handler(self, handler: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return the function that handles requests; a subclass may add checks around `handler`."""
        return handler


def check_declared_access(routes: Iterable[Route]) -> None:
    """Raise SettingsError for a route that takes an API key and does not say which scope the key needs."""
    for route in routes:
        if route.credential in ("apiKey", "apiKeyOrNone") and route.scope is None:
            raise SettingsError(f"{route.method} {route.path} takes an API key and declares no scope.")


def _with_derived_errors(route: Route) -> Route:
    """Add the errors that follow from the credential, the query and the body."""
    takes_query = any(one.location == "query" for one in route.parameters)
    derived = (
        *(BODY_ERRORS if route.body is not None else ()),
        *((ValidationFailed,) if takes_query else ()),
        *route.errors,
        *CREDENTIAL_ERRORS[route.credential],
    )
    return replace(route, errors=tuple(dict.fromkeys(derived)))


def _as_body(body: Any) -> RequestBody | None:
    if body is None or isinstance(body, RequestBody):
        return body
    first_line = (inspect.getdoc(body) or "").partition("\n")[0] if inspect.isclass(body) else ""
    return RequestBody(model=body, description=first_line)


def _as_reply(reply: Any, status: int) -> RouteReply:
    if isinstance(reply, RouteReply):
        return reply
    return RouteReply(status=204 if reply is None else status, model=reply)


def _read_docstring(function: Any) -> tuple[str, str]:
    """Return the first line without its full stop, and the rest as one paragraph."""
    first, _, rest = (inspect.getdoc(function) or "").partition("\n")
    return first.rstrip("."), " ".join(rest.split())


def _list_query_parameters(query: type[Struct] | None) -> Iterator[Parameter]:
    if query is None:
        return
    hints = get_type_hints(query, include_extras=True)
    for field in fields(query):
        hint, description = _find_plain_type(hints[field.name])
        yield Parameter(name=field.encode_name, location="query", type=hint, description=description)


def _find_plain_type(hint: Any) -> tuple[Any, str]:
    """Return the type without None, which a query cannot carry, and its description."""
    description = ""
    extras: tuple[Any, ...] = ()
    if get_origin(hint) is Annotated:
        hint, *found = get_args(hint)
        extras = tuple(found)
        description = next(
            (one.description for one in extras if isinstance(one, Meta) and one.description), ""
        )
    if get_origin(hint) in (Union, UnionType):
        hint = reduce(or_, (kind for kind in get_args(hint) if kind is not NoneType))
    return (Annotated[(hint, *extras)] if extras else hint), description


def list_path_variables(path: str) -> tuple[str, ...]:
    """Return the names of the variables of a declared path."""
    return tuple(name for name, _ in _VARIABLE.findall(path))


def get_first_step(path: str) -> str:
    """Return the first step of a path: `v1` of `/v1/cases`."""
    return path[1:].partition("/")[0]


def build_path_sort_key(path: str) -> list[tuple[int, str]]:
    """Return a sort key that puts fixed steps before variables, and variables before `{rest:path}`."""
    return [(0 if "{" not in step else 2 if ":path" in step else 1, step) for step in path.split("/")]
