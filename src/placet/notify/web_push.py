"""The web push channel: notifications in the browsers in which a person has turned them on.

A message is encrypted for the browser (RFC 8291) and signed with the server's key (VAPID, RFC 8292), so that
the push service between them reads nothing. Pressing it opens the review page; there are no other buttons.
"""

import base64
import hashlib
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from msgspec import Struct
from py_vapid import Vapid02
from pywebpush import WebPusher

from placet.channels import texts
from placet.channels.link_only import LinkOnlyChannel
from placet.deliveries.guarded_http import GuardedHttp
from placet.errors import AddressRefused, ChannelRefused, Unreachable, ValidationFailed
from placet.notify.push_hosts import require_push_host
from placet.notify.settings import WEB_PUSH
from placet.ports.channel import Card, CaseClosure, SentMessage
from placet.ports.push_store import PushStore, PushSubscription
from placet.protocol.addresses import is_secure_or_loopback
from placet.text.truncation import to_single_line, truncate

MAX_SUBSCRIPTIONS = 20
"""How many browsers of one person are notified."""
MAX_ENDPOINT_LENGTH, MAX_KEY_LENGTH = 2000, 200
MAX_TITLE_LENGTH, MAX_BODY_LENGTH = 120, 400
RESPONSE_TIMEOUT = timedelta(seconds=15)
MAX_TIME_TO_LIVE_S = 28 * 24 * 3600
TOKEN_LIFETIME = timedelta(hours=12)  # RFC 8292: at most a day
TOPIC_LENGTH = 32
GONE = frozenset({404, 410})
"""The person has turned notifications off, or the browser is gone."""
LINK_ONLY = "Web push has no buttons. The person answers on the review page."


class PushMessage(Struct, frozen=True, kw_only=True):
    """What the service worker of the inbox shows. A message replaces an earlier one with its tag."""

    title: str
    body: str
    url: str
    tag: str


class WebPushSender:
    """Encrypts messages and sends them to the browsers of people."""

    def __init__(
        self,
        *,
        store: PushStore,
        http: GuardedHttp,
        private_key: str,
        subject: str,
        hosts: Collection[str],
        clock: Callable[[], datetime],
    ) -> None:
        """`subject` says whom a push service asks about this server: a mailto: or https: address."""
        self._store = store
        self._http = http
        self._vapid = Vapid02.from_pem(private_key.encode())
        self._subject = subject
        self._hosts = hosts
        self._now = clock

    @property
    def public_key(self) -> str:
        """The key that browsers subscribe with, as base64url."""
        public: ec.EllipticCurvePublicKey = self._vapid.public_key
        return _encode(public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))

    async def subscribe(self, owner: str, *, endpoint: str, p256dh: str, auth: str) -> None:
        """Store a browser of this person. Raises ValidationFailed for one that is not valid."""
        try:
            self._check_endpoint(endpoint)
            await self._http.check_resolves(endpoint)
        except AddressRefused as refusal:
            raise ValidationFailed(f"endpoint: {refusal.message}") from None
        _check_keys(p256dh, auth)
        subscription = PushSubscription(
            owner=owner, endpoint=endpoint, p256dh=p256dh, auth=auth, created_at=self._now()
        )
        await self._store.save_push_subscription(subscription, most=MAX_SUBSCRIPTIONS)

    async def unsubscribe(self, owner: str, endpoint: str) -> None:
        """Forget a browser of this person."""
        if any(one.endpoint == endpoint for one in await self._store.list_push_subscriptions(owner)):
            await self._store.delete_push_subscription(endpoint)

    async def send(self, owner: str, message: PushMessage, *, expires_at: datetime) -> None:
        """Send to every browser of a person; raise ChannelRefused or Unreachable if none took it."""
        subscriptions = await self._store.list_push_subscriptions(owner)
        failures = [await self._send_to(one, message, expires_at) for one in subscriptions]
        if None in failures:
            return
        if all(failure in GONE for failure in failures):
            raise ChannelRefused(f"{owner!r} has turned on notifications in no browser.")
        raise Unreachable(f"No push service took the notification for {owner!r}.")

    async def _send_to(
        self, subscription: PushSubscription, message: PushMessage, expires_at: datetime
    ) -> int | None:
        """Send to one browser; return None, or the status of the failure, 0 if there was no answer."""
        try:
            self._check_endpoint(subscription.endpoint)
            reply = await self._http.request(
                "POST",
                subscription.endpoint,
                headers=self._build_headers(subscription.endpoint, message, expires_at),
                body=encrypt(subscription, msgspec.json.encode(message)),
                timeout_for=RESPONSE_TIMEOUT,
                max_bytes=0,
            )
        except (AddressRefused, Unreachable):
            return 0
        if reply.status in GONE:
            await self._store.delete_push_subscription(subscription.endpoint)
        return None if 200 <= reply.status < 300 else reply.status

    def _build_headers(self, endpoint: str, message: PushMessage, expires_at: datetime) -> dict[str, str]:
        parts = urlsplit(endpoint)
        claims = {
            "sub": self._subject,
            "aud": f"{parts.scheme}://{parts.netloc}",
            "exp": int((self._now() + TOKEN_LIFETIME).timestamp()),
        }
        seconds = int((expires_at - self._now()).total_seconds())
        signed: dict[str, str] = self._vapid.sign(claims)
        topic = hashlib.sha256(message.tag.encode()).digest()
        return {
            **signed,
            "Content-Encoding": "aes128gcm",
            "Content-Type": "application/octet-stream",
            "TTL": str(min(max(seconds, 0), MAX_TIME_TO_LIVE_S)),
            "Urgency": "high",
            "Topic": _encode(topic)[:TOPIC_LENGTH],
        }

    def _check_endpoint(self, endpoint: str) -> None:
        if len(endpoint) > MAX_ENDPOINT_LENGTH or not is_secure_or_loopback(endpoint):
            raise AddressRefused("The endpoint of a push service is an https:// address.", rule="scheme")
        require_push_host(endpoint, self._hosts)


class WebPushChannel(LinkOnlyChannel):
    """Implements `Channel` for the browsers of one person."""

    name = WEB_PUSH
    why = LINK_ONLY

    def __init__(self, owner: str, sender: WebPushSender, *, clock: Callable[[], datetime]) -> None:
        self._owner = owner
        self._sender = sender
        self._now = clock

    async def send(self, card: Card) -> SentMessage:
        """Notify every browser of the person."""
        tag = _build_tag(card)
        await self._sender.send(self._owner, build_push_message(card), expires_at=card.expires_at)
        return SentMessage(
            channel=self.name, conversation_id=self._owner, message_id=tag, sent_at=self._now()
        )

    async def mark_closed(self, sent_message: SentMessage, card: Card, closure: CaseClosure) -> None:
        """Replace the notification by how the case closed."""
        closed = build_push_message(card, texts.describe_closure(closure))
        await self._sender.send(self._owner, closed, expires_at=self._now() + timedelta(hours=1))


def generate_private_key() -> str:
    """Return a new key that signs for this server, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def build_push_message(card: Card, closure: str | None = None) -> PushMessage:
    """Return the message for a case, or for the end of a case."""
    title = closure or texts.format_heading(card, MAX_TITLE_LENGTH)
    return PushMessage(
        title=truncate(title, MAX_TITLE_LENGTH),
        body=truncate(to_single_line(card.prompt), MAX_BODY_LENGTH),
        url=card.review_url,
        tag=_build_tag(card),
    )


def encrypt(subscription: PushSubscription, message: bytes) -> bytes:
    """Return the message encrypted for one browser."""
    keys = {"p256dh": subscription.p256dh, "auth": subscription.auth}
    pusher = WebPusher({"endpoint": subscription.endpoint, "keys": keys})
    encoded: Any = pusher.encode(message, content_encoding="aes128gcm")
    return bytes(encoded["body"])


def _check_keys(p256dh: str, auth: str) -> None:
    try:
        if max(len(p256dh), len(auth)) > MAX_KEY_LENGTH or len(_decode(auth)) != 16:
            raise ValueError(auth)
        _ = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _decode(p256dh))
    except ValueError:
        raise ValidationFailed("The keys of the subscription are not valid.") from None


def _build_tag(card: Card) -> str:
    return urlsplit(card.review_url).path


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
