"""Send one e-mail over SMTP, encrypted unless the server is on this machine. Blocking: use a thread."""

import smtplib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from msgspec import Struct

from placet.channels.platform_api import quote_platform
from placet.errors import ChannelRefused, SettingsError, Unreachable
from placet.protocol.addresses import LOOPBACK_HOSTS

Security = Literal["starttls", "tls", "none"]

SECURITIES: tuple[Security, ...] = ("starttls", "tls", "none")
TIMEOUT_S = 20.0
SMTPS_PORT = 465


class MailServer(Struct, frozen=True, kw_only=True):
    """An SMTP server and the credentials for it."""

    host: str
    port: int
    security: Security
    user: str | None = None
    password: str | None = None
    greeting: str
    """The host name in the EHLO command."""
    tls: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        if self.security == "none" and self.host not in LOOPBACK_HOSTS:
            raise SettingsError(
                "PLACET_EMAIL_SECURITY: none is only for a server on this machine. Use starttls or tls."
            )

    def __repr__(self) -> str:
        return f"MailServer({self.host!r})"

    def deliver(self, mail: bytes, *, sender: str, recipient: str) -> None:
        """Send one e-mail; raise ChannelRefused, or Unreachable with `later` if the server asks to retry."""
        with _translate_errors():
            smtp = self._connect()
            try:
                self._log_in(smtp)
                smtp.sendmail(sender, [recipient], mail)
            finally:
                # The server has accepted or refused the e-mail by now; a failing QUIT changes nothing.
                with suppress(OSError, smtplib.SMTPException):
                    smtp.quit()
                smtp.close()

    def _connect(self) -> smtplib.SMTP:
        if self.security == "tls":
            return smtplib.SMTP_SSL(
                self.host, self.port, self.greeting, timeout=TIMEOUT_S, context=self._build_tls_context()
            )
        return smtplib.SMTP(self.host, self.port, self.greeting, timeout=TIMEOUT_S)

    def _log_in(self, smtp: smtplib.SMTP) -> None:
        if self.security == "starttls":
            smtp.starttls(context=self._build_tls_context())
        if self.user is not None:
            smtp.login(self.user, self.password or "")

    def _build_tls_context(self) -> ssl.SSLContext:
        return self.tls or ssl.create_default_context()


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate SMTP errors, `from None`: they may contain addresses and what was sent."""
    try:
        yield
    except smtplib.SMTPAuthenticationError:
        raise ChannelRefused(
            "The mail server refused the login. Check PLACET_EMAIL_USER and PLACET_EMAIL_PASSWORD."
        ) from None
    except smtplib.SMTPNotSupportedError:
        raise ChannelRefused("The mail server does not support encryption or login.") from None
    except smtplib.SMTPRecipientsRefused as error:
        code, message = next(iter(error.recipients.values()))
        raise _error_from_reply(code, message) from None
    except smtplib.SMTPResponseException as error:
        raise _error_from_reply(error.smtp_code, error.smtp_error) from None
    except ssl.SSLCertVerificationError:
        raise ChannelRefused("The mail server's certificate is not valid for its host name.") from None
    except (OSError, smtplib.SMTPException) as error:
        raise Unreachable(f"The mail server cannot be reached ({type(error).__name__}).") from None


def _error_from_reply(code: int, message: bytes | str) -> ChannelRefused | Unreachable:
    words = quote_platform(
        "The mail server", message.decode("utf-8", "replace") if isinstance(message, bytes) else message
    )
    if 400 <= code < 500:
        return Unreachable(f"The mail server asks to retry later. {words}", later=True)
    if 500 <= code < 600:
        return ChannelRefused(f"The mail server refused the e-mail. {words}")
    return Unreachable("The mail server's reply is not understood.")
