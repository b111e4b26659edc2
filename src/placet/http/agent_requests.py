"""What a service passes on of an agent's request, so that the agent can follow the case itself."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from placet.errors import PlacetError

MAX_URL_LENGTH = 2048


def read_agent_request(request: Any) -> dict[str, Any]:
    """Return the fields `reader` and `hitl_callback_url` of a draft, as far as the request has them.

    Takes a request of Flask, Werkzeug or Django, anything else with `headers`, or a WSGI environ. Raises
    PlacetError for other objects.
    """
    credential = _read_credential(request)
    callback_url = _read_callback_url(request)
    digest = hashlib.sha256(credential.encode("utf-8", "surrogateescape")).hexdigest() if credential else None
    return {
        **({"reader": {"bearer_sha256": digest}} if digest else {}),
        **({"hitl_callback_url": callback_url} if callback_url else {}),
    }


def _read_credential(request: Any) -> str | None:
    if isinstance(request, Mapping):
        authorization, api_key = request.get("HTTP_AUTHORIZATION"), request.get("HTTP_X_API_KEY")
    else:
        headers = getattr(request, "headers", None)
        if headers is None or not hasattr(headers, "get"):
            raise PlacetError("agent_request must be a request with headers, or a WSGI environ.")
        authorization, api_key = headers.get("Authorization"), headers.get("X-API-Key")
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else api_key or None


def _read_callback_url(request: Any) -> str | None:
    """Return the `hitl_callback_url` of a JSON body that the framework holds in memory."""
    if isinstance(request, Mapping):
        return None
    try:
        if hasattr(request, "get_json"):  # Flask and Werkzeug
            body = request.get_json(silent=True)
        else:
            held = getattr(request, "body", None)  # Django
            body = json.loads(held) if isinstance(held, bytes) and held.lstrip()[:1] == b"{" else None
    except (ValueError, RecursionError):
        return None
    found = body.get("hitl_callback_url") if isinstance(body, Mapping) else None
    return found if isinstance(found, str) and len(found) <= MAX_URL_LENGTH else None
