"""Errors of connections to agents, besides those of the operating system."""


class ConnectTimeout(TimeoutError):
    """No connection came about in time; nothing was sent."""


class InvalidHttpResponse(Exception):
    """What came is not HTTP."""


class ResponseTruncated(Exception):
    """The answer had begun, and did not end."""


class ConnectionClosed(ConnectionResetError):
    """The connection ended before an answer came; what was sent may have arrived."""
