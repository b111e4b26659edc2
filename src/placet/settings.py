"""One frozen settings object from defaults, a TOML file, the environment and flags."""

import os.path
import re
import tomllib
from collections.abc import Mapping
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from placet.desk.case_limits import Limits
from placet.desk.draft import TYPE_PATTERN
from placet.errors import SettingsError, ValidationFailed
from placet.notify.settings import NotifySettings, check_notify
from placet.protocol.addresses import is_secure_or_loopback, normalize_url
from placet.protocol.conversion import suggest_field
from placet.protocol.discovery import URL_DETAILS, ServiceDetails
from placet.protocol.duration import parse_duration
from placet.relay.settings import RelaySettings, check_relay
from placet.text.characters import is_one_line
from placet.verification.settings import VerificationSettings, check_verification

PREFIX = "PLACET_"
DEFAULT_FILE = "placet.toml"
OPTIONAL = frozenset({"base_url", "theme", "relay", "notify", "discovery", "verification"})
ORIGIN_LISTS = ("cors_origins", "frame_ancestors")
EMPTY_ALLOWED = OPTIONAL | set(ORIGIN_LISTS)

# As browsers send it: no default port, no slash at the end.
ORIGIN = re.compile(
    r"(?:https://(?!\S*:443$)|http://(?!\S*:80$))(?:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?"
)

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=0)]
ByteCount = Annotated[int, Meta(ge=1024)]

_LIMITS = Limits()


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a server. Every field is a TOML key and a `PLACET_…` variable, and some are flags."""

    db: str = "placet.db"
    """The database: sqlite:///FILE, a path, :memory: for one that is lost when the server stops, or
    postgresql://USER@HOST/NAME. Behind a pooler, add ?direct=HOST:PORT, the server itself."""
    host: str = "127.0.0.1"
    """The address to listen on."""
    port: Port = 8400
    """The port to listen on; 0 selects a free port."""
    base_url: str | None = None
    """The public URL of this server; HTTPS except on loopback. Default: http://HOST:PORT."""
    service_name: str = "Placet"
    """The name of the service, as people see it on the pages."""
    service_description: str = "Human decisions for autonomous agents"
    """The description in the discovery document, one sentence."""
    default_timeout: str = "24h"
    """How long a case stays open if the request sets no timeout."""
    max_timeout: str = "7d"
    """The longest timeout that a case may have."""
    retention: str = "30d"
    """How long the content of a closed case is retained."""
    polls_per_minute: Count = 60
    """How often per minute one principal may poll one open case; 0 for no limit."""
    max_body_bytes: ByteCount = _LIMITS.max_body_bytes
    """The maximum size of a request body, in bytes."""
    max_context_bytes: ByteCount = _LIMITS.max_context_bytes
    """The maximum size of the context of a case, in bytes."""
    max_open_cases: Count = _LIMITS.max_open_cases
    """How many open cases one principal may have; 0 for no limit."""
    max_stored_bytes: Count = _LIMITS.max_stored_bytes
    """How many bytes of content one principal may have stored, until retention ends; 0 for no limit."""
    max_cases_per_minute: Count = _LIMITS.max_cases_per_minute
    """How many cases one principal may open per minute; 0 for no limit."""
    max_case_bytes_per_minute: Count = _LIMITS.max_case_bytes_per_minute
    """How many bytes of new cases, and of answers, one principal may send per minute; 0 for no limit."""
    max_streams: Count = _LIMITS.max_streams
    """How many event streams one principal may have open; 0 for no limit."""
    four_eyes: bool = False
    """Whether, in every case, the principal and the people who asked cannot approve."""
    signing: Literal["ES256", "RS256", "EdDSA", "none"] = "ES256"
    """The algorithm that signs results; none for no signatures."""
    allow_loopback: bool = False
    """Whether callbacks, default_ref and the relay may call loopback addresses; only for development."""
    cors_origins: tuple[str, ...] = ()
    """The web origins whose scripts may call the API from a browser, such as https://app.example; * for all.
    In the environment, separated by commas. No cookies are allowed, and pages are never shared."""
    frame_ancestors: tuple[str, ...] = ()
    """The web origins that may show review pages in a frame, such as https://chat.example; in the
    environment, separated by commas. Decisions of high risk are made outside of the frame."""
    theme: str | None = None
    """A folder with a theme for the pages: name, logo, colours, styles, templates, languages."""
    relay: RelaySettings | None = None
    """The agents behind the relay and who may call them; a table, only in the settings file."""
    notify: NotifySettings | None = None
    """Whom the server notifies of which cases; a table, only in the settings file."""
    discovery: ServiceDetails | None = None
    """What the discovery document says besides what the server knows; a table, only in the settings file."""
    verification: VerificationSettings | None = None
    """What proofs of the person the server can verify; a table, only in the settings file."""
    log_style: Literal["auto", "json", "text"] = "auto"
    """The format of log lines; auto is text in a terminal and JSON otherwise."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""
    log_requests: bool = False
    """Whether each request is logged, without its query string."""
    tracing: bool = False
    """Whether requests are traced with OpenTelemetry (needs the `otel` extra)."""

    @property
    def limits(self) -> Limits:
        """The limits of the desk."""
        return Limits(
            max_body_bytes=self.max_body_bytes,
            max_context_bytes=self.max_context_bytes,
            default_timeout_for=_parse_setting_duration("default_timeout", self.default_timeout),
            max_timeout_for=_parse_setting_duration("max_timeout", self.max_timeout),
            keep_for=_parse_setting_duration("retention", self.retention),
            max_open_cases=self.max_open_cases,
            max_stored_bytes=self.max_stored_bytes,
            max_cases_per_minute=self.max_cases_per_minute,
            max_case_bytes_per_minute=self.max_case_bytes_per_minute,
            max_streams=self.max_streams,
        )

    @property
    def public_url(self) -> str:
        """The base of every URL that the server returns."""
        return (self.base_url or f"http://{_format_url_host(self.host)}:{self.port}").rstrip("/")


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """Settings with the origin of each: default, file, environment or flag."""

    settings: Settings
    origins: dict[str, str]


def load(
    *, environ: Mapping[str, str], flags: Mapping[str, Any] | None = None, file: Path | None = None
) -> LoadedSettings:
    """Load settings from defaults, file, environment and flags; later sources override earlier ones."""
    layers = [
        *_from_file(file or _find_file(environ)),
        *_from_environment(environ),
        *((name, value, "flag") for name, value in (flags or {}).items() if value is not None),
    ]
    origins = dict.fromkeys(Settings.__struct_fields__, "default")
    values: dict[str, Any] = {}
    for name, value, origin in layers:
        if name not in origins:
            near = get_close_matches(name, origins, n=1)
            meant = f" Did you mean {near[0]!r}?" if near else ""
            raise SettingsError(f"{origin}: unknown setting {name!r}.{meant}")
        values[name], origins[name] = value, origin
    return LoadedSettings(settings=build_settings(values, origins), origins=origins)


def build_settings(values: Mapping[str, Any], origins: Mapping[str, str] | None = None) -> Settings:
    """Return settings from values by name, with defaults; raises SettingsError for invalid values."""
    # In TOML and the environment an empty text means that an optional setting is not set.
    given = {name: value for name, value in values.items() if value != "" or name not in OPTIONAL}
    for name in ORIGIN_LISTS:
        if isinstance(listed := given.get(name), str):
            given[name] = [one.strip() for one in listed.split(",") if one.strip()]
    try:
        settings = msgspec.convert(given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise _build_settings_error(error, origins or {}) from error
    check(settings)
    if settings.base_url is None:
        return settings
    return replace(settings, base_url=normalize_url(settings.base_url).rstrip("/"))


def check(settings: Settings) -> None:
    """Raise SettingsError for settings that are invalid or contradict each other."""
    if not settings.db.strip():
        raise SettingsError(
            "db is empty. Use sqlite:///FILE, a path, :memory:, or postgresql://USER@HOST/NAME."
        )
    limits = settings.limits
    if limits.default_timeout_for > limits.max_timeout_for:
        raise SettingsError("default_timeout is longer than max_timeout. Change one of them.")
    # os.path.isdir, since Path.is_dir raises for invalid names.
    if settings.theme is not None and not os.path.isdir(settings.theme):
        raise SettingsError(f"theme: {settings.theme!r} is not a folder.")
    if settings.theme is not None:
        from placet.pages.theme import read_theme

        read_theme(Path(settings.theme))
    _check_tables(settings)
    for name, origin in (
        *(("cors_origins", one) for one in settings.cors_origins if one != "*"),
        *(("frame_ancestors", one) for one in settings.frame_ancestors),
    ):
        if not ORIGIN.fullmatch(origin):
            raise SettingsError(
                f"{name}: {origin[:80]!a} is not a web origin. Write scheme and host in lower case,"
                " with a port if it is not the default, and no path: https://app.example."
            )
    base_url = settings.base_url
    if base_url is not None and not is_secure_or_loopback(base_url):
        raise SettingsError(
            f"base_url {base_url!r} must be https://…; http is for localhost, 127.0.0.1 and [::1]."
        )
    if base_url is not None and "?" in base_url:
        raise SettingsError(f"base_url {base_url!r} must not have a query: paths are appended to it.")
    if base_url is None and not is_secure_or_loopback(f"http://{_format_url_host(settings.host)}"):
        raise SettingsError(
            f"Listening on {settings.host} requires base_url: the https:// URL where people reach it."
        )


def _check_tables(settings: Settings) -> None:
    if settings.relay is not None:
        check_relay(settings.relay, allow_loopback=settings.allow_loopback)
    if settings.notify is not None:
        check_notify(settings.notify)
    if settings.discovery is not None:
        check_discovery(settings.discovery)
    if settings.verification is not None:
        check_verification(settings.verification)


def check_discovery(details: ServiceDetails) -> None:
    """Raise SettingsError for details that the discovery document cannot show."""
    for name in URL_DETAILS:
        url = getattr(details, name)
        if url is not None and not is_secure_or_loopback(url):
            raise SettingsError(f"discovery.{name}: {url[:200]!a} is not an https:// address.")
    for type in details.review_types:
        if not re.fullmatch(TYPE_PATTERN, type):
            raise SettingsError(
                f"discovery.review_types: {type[:100]!a} is neither a standard type nor an x-… type."
            )
    if details.contact is not None and not is_one_line(details.contact):
        raise SettingsError("discovery.contact must be one line.")


def _build_settings_error(error: msgspec.ValidationError, origins: Mapping[str, str]) -> SettingsError:
    """Return the error for an invalid value, with the name of the setting and the origin of its value."""
    complaint = str(error)
    what, _, place = complaint.partition(" - at `$.")
    name = place.rstrip("`")
    if not name:
        return SettingsError(f"A setting is not valid: {complaint}.")
    setting = re.split(r"[.\[]", name)[0]  # for a nested value, the name of the table
    choices = get_args(Settings.__annotations__.get(setting)) if what.startswith("Invalid enum") else ()
    takes = f"; use one of {', '.join(choices)}" if choices and setting == name else ""
    takes = takes or suggest_field(error, Settings)
    return SettingsError(f"{name} is not valid: {what}{takes} (from {origins.get(setting, 'code')}).")


def _find_file(environ: Mapping[str, str]) -> Path | None:
    named = environ.get(f"{PREFIX}CONFIG")
    if named:
        return Path(named)
    return Path(DEFAULT_FILE) if Path(DEFAULT_FILE).is_file() else None


def _from_file(file: Path | None) -> list[tuple[str, Any, str]]:
    if file is None:
        return []
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"The settings file {file} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"The settings file {file} is not valid TOML: {error}.") from error
    return [(name, value, f"file {file}") for name, value in values.items()]


def _from_environment(environ: Mapping[str, str]) -> list[tuple[str, Any, str]]:
    """Return the variables that are set. An empty one counts only where empty means "not set"."""
    return [
        (name, value, f"environment {PREFIX}{name.upper()}")
        for name in Settings.__struct_fields__
        if (value := environ.get(PREFIX + name.upper())) is not None
        and (value or name in EMPTY_ALLOWED)
        and not _is_port_of_kubernetes(name, value)
    ]


def _is_port_of_kubernetes(name: str, value: str) -> bool:
    """Return whether PLACET_PORT is the address that Kubernetes sets for a service named "placet"."""
    return name == "port" and "://" in value


def _parse_setting_duration(name: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValidationFailed as error:
        raise SettingsError(f"{name}: {error.message}") from error


def _format_url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
