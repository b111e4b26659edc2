"""Structured logs: one JSON object per line, with tokens and secrets redacted before writing."""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

STRUCK = "[redacted]"
_SECRETS = re.compile(
    r"(?P<keep>(?:token|csrf|placet_case[\w.-]*|placet_inbox\w*)=|Bearer\s+)[^\s&;\"',}]+"
    r"|\b(?:whsec_|placet_)[A-Za-z0-9+/=_-]{16,}"
    # 43 characters of base64url are a token.
    r"|(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])",
    re.IGNORECASE,
)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


def redact(text: str) -> str:
    """Return the text with everything that looks like a token, key or secret redacted."""
    writable = text.encode("utf-8", "replace").decode()
    return _SECRETS.sub(lambda found: (found["keep"] or "") + STRUCK, writable)


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for name, value in vars(record).items():
            if name not in _STANDARD:
                line[name] = value if isinstance(value, int | float | None) else redact(str(value))
        if record.exc_info:
            line["error"] = redact(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """Formats a record for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        line = f"{moment}  {record.levelname.lower():<7}  {_escape_control_characters(record.getMessage())}"
        if record.exc_info:
            line = f"{line}\n{self.formatException(record.exc_info)}"
        return redact(line)


def _escape_control_characters(text: str) -> str:
    """Escape control characters, which could forge a log line or change the terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def configure_logs(*, style: Literal["auto", "json", "text"], level: str) -> None:
    """Send all logs to standard error in one style; `auto` is text at a terminal and JSON elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    for_a_person = style == "text" or (style == "auto" and sys.stderr.isatty())
    handler.setFormatter(TextFormatter() if for_a_person else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    logging.getLogger("uvicorn.error").setLevel(max(root.level, logging.WARNING))  # we log the same
    logging.getLogger("httpx").setLevel(max(root.level, logging.WARNING))  # it logs each call of a messenger
    logging.getLogger("uvicorn.access").disabled = True  # it would log review links with their tokens
