"""Errors of connections to agents, besides those of the operating system."""


class ConnectTimeout(TimeoutError):
    """No connection could be opened in time. Nothing was sent."""


class InvalidHttpResponse(Exception):
    """The response is not valid HTTP."""


class ResponseTruncated(Exception):
    """The connection closed before the response was complete."""


class ConnectionClosed(ConnectionResetError):
    """The connection closed before a response. The agent may have received the request."""
