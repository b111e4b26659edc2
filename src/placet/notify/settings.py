"""The `[notify]` section of the settings, and its validation."""

import re
from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct, field

from placet.channels.registry import check_answerer, split_address
from placet.errors import SettingsError, ValidationFailed
from placet.notify.push_hosts import PUSH_HOSTS
from placet.ports.recipients import ALL_KINDS, NotificationKind
from placet.protocol.duration import parse_duration
from placet.text.characters import is_one_line, is_storable

WEB_PUSH = "webpush"
"""The channel of the addresses `webpush:NAME`: the browsers of people who sign in with the key NAME."""
RECIPIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_PERSON_NAME_LENGTH = 100


class RecipientSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person or a group that is notified, `[notify.recipients.NAME]`."""

    send_to: tuple[str, ...]
    """Where messages go: `email:ada@acme.example`, `telegram:4711`, `slack:C0123456` and so on."""
    answerers: dict[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Who may answer with a button: a person's name, and the person's user id on the platform, such as
    `telegram:4711`. Without any, messages have only the link."""
    events: tuple[NotificationKind, ...] = ALL_KINDS
    """What is sent: `new_case`, `reminder`, `expiry_warning`."""


class NotifyRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom to notify of which cases, `[[notify.rules]]`. A rule without conditions applies to every case."""

    recipients: tuple[str, ...]
    """The names of the recipients."""
    types: tuple[str, ...] = ()
    """Only cases of these review types; `x-*` for all custom types."""
    entry_points: tuple[str, ...] = ()
    """Only cases that came in by `service`, `relay` or `hook`."""
    principals: tuple[str, ...] = ()
    """Only cases that these API keys opened."""
    labels: tuple[str, ...] = ()
    """Only cases with one of these labels."""


class NotifySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whom the server notifies of new cases, reminders and deadlines, `[notify]`."""

    recipients: dict[str, RecipientSettings] = field(default_factory=dict)
    """The people and groups that can be notified, by name."""
    rules: tuple[NotifyRule, ...] = ()
    """Whom to notify of which cases. A case may name more recipients."""
    expiry_warning: str = "1h"
    """How long before its deadline a case warns its recipients; empty for no warnings. A case that is open
    for less than twice this time has no warning."""

    web_push_hosts: tuple[str, ...] = PUSH_HOSTS
    """The push services that browsers may name, `*` for any text. Add one if a browser is refused."""
    web_push_contact: str | None = None
    """Whom a push service asks about this server: `mailto:…` or `https://…`. Default: the base URL."""

    @property
    def push_addresses(self) -> tuple[str, ...]:
        """The addresses whose messages go to browsers."""
        return tuple(one for one in self.addresses if split_address(one)[0] == WEB_PUSH)

    @property
    def warn_before(self) -> timedelta | None:
        """How long before its deadline a case warns, or None."""
        try:
            return parse_duration(self.expiry_warning) if self.expiry_warning else None
        except ValidationFailed as error:
            raise SettingsError(f"notify.expiry_warning: {error.message}") from error

    @property
    def addresses(self) -> tuple[str, ...]:
        """All addresses that messages may go to, each once."""
        everywhere = (address for one in self.recipients.values() for address in one.send_to)
        return tuple(dict.fromkeys(everywhere))


def list_answerers(recipient: RecipientSettings) -> Mapping[str, str]:
    """Return the names of those who may answer, by their user ids on the platforms."""
    return {
        user_id: name
        for name, ids in recipient.answerers.items()
        for user_id in ((ids,) if isinstance(ids, str) else ids)
    }


def check_notify(notify: NotifySettings) -> None:
    """Raise SettingsError for recipients or rules that are not valid."""
    _ = notify.warn_before
    contact = notify.web_push_contact
    if contact is not None and not contact.startswith(("mailto:", "https://")):
        raise SettingsError("notify.web_push_contact must begin with mailto: or https://.")
    people: dict[str, str] = {}
    for name, recipient in notify.recipients.items():
        _check_recipient(name, recipient, people)
    for number, rule in enumerate(notify.rules):
        unknown = [name for name in rule.recipients if name not in notify.recipients]
        if unknown or not rule.recipients:
            named = f"{unknown[0]!r} is not in notify.recipients" if unknown else "names no recipient"
            raise SettingsError(f"notify.rules[{number}].recipients: {named}.")


def _check_recipient(name: str, recipient: RecipientSettings, people: dict[str, str]) -> None:
    setting = f"notify.recipients.{name}"
    if not RECIPIENT_NAME.fullmatch(name):
        raise SettingsError(
            f"notify.recipients: {name[:100]!a} is not a name. Use letters, digits, . _ and -."
        )
    if not recipient.send_to:
        raise SettingsError(f"{setting}.send_to is empty. Write addresses such as email:ada@acme.example.")
    for address in recipient.send_to:
        if not all(split_address(address)):
            raise SettingsError(
                f"{setting}.send_to: {address!r} is not an address. Write it as email:ada@acme.example."
            )
    for user_id, person in list_answerers(recipient).items():
        if not (0 < len(person) <= MAX_PERSON_NAME_LENGTH and is_storable(person) and is_one_line(person)):
            raise SettingsError(f"{setting}.answerers: {person[:100]!a} is not a name.")
        try:
            check_answerer(user_id)
        except SettingsError as error:
            raise SettingsError(f"{setting}.answerers: {error.message}") from error
        if people.setdefault(user_id, person) != person:
            raise SettingsError(
                f"{setting}.answerers: {user_id} is {people[user_id]!r} elsewhere. Give a person one name."
            )
