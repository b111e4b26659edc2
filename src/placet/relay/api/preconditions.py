"""What may be changed: nothing of the settings, and only what is still as whoever changes it saw it.

They say what they saw with If-Match: its `rev`, or a policy's `version`.
"""

from placet.errors import RelayConflict
from placet.protocol.shape import quote
from placet.relay.api.route import ApiRequest

IN_SETTINGS = "This is set in the server's settings file; change it there."


def check_match(request: ApiRequest, current: int | str) -> None:
    """Raise RelayConflict if the request was made for another state than the present one."""
    if request.if_match is None:
        return
    named = [one.strip().strip('"') for one in request.if_match.split(",")]
    if "*" in named or str(current) in named:
        return
    raise RelayConflict(
        f"If-Match says {quote(request.if_match)}, and this is {current} by now; look again.",
        current=str(current),
    )
