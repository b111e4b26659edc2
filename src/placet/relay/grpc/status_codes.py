"""Translate errors into gRPC statuses with the details that A2A clients expect."""

from typing import Any

import grpc
from google.protobuf import any_pb2  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

from placet.errors import PlacetError
from placet.relay.a2a.errors import ERROR_CODES, A2AError, ErrorCodes

DETAILS = "grpc-status-details-bin"
DOMAIN = "a2a-protocol.org"
CODES_BY_HTTP_STATUS = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
}
_BY_CODE: dict[int, ErrorCodes] = {codes.rpc_code: codes for codes in reversed(ERROR_CODES.values())}
_UNKNOWN = ErrorCodes(-32603, 500, "INTERNAL", "INTERNAL_ERROR", "InternalError")


class GrpcRefusal(Exception):
    """A call that ends with a status instead of an answer."""

    def __init__(self, code: grpc.StatusCode, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason

    def trailers(self) -> tuple[tuple[str, bytes], ...]:
        """The status in full, as the official clients read it."""
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        if self.reason is not None:
            packed = any_pb2.Any()
            packed.Pack(error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN))
            status.details.append(packed)
        return ((DETAILS, status.SerializeToString()),)


def refusal_from_error(failure: PlacetError | A2AError) -> GrpcRefusal:
    """What was raised, as a refusal."""
    if isinstance(failure, A2AError):
        codes = failure.codes
        return GrpcRefusal(grpc.StatusCode[codes.rpc_status], failure.message, codes.reason)
    return GrpcRefusal(CODES_BY_HTTP_STATUS.get(failure.status, grpc.StatusCode.INTERNAL), failure.message)


def refusal_from_document(error: Any) -> GrpcRefusal:
    """An error of A2A's JSON, in either binding, as a refusal."""
    found = error if isinstance(error, dict) else {}
    code, message = found.get("code"), found.get("message")
    codes = _BY_CODE.get(code, _UNKNOWN) if isinstance(code, int) else _UNKNOWN
    name, reason = codes.rpc_status, _find_reason(found) or codes.reason
    if isinstance(found.get("status"), str) and found["status"] in grpc.StatusCode.__members__:
        name = found["status"]
    return GrpcRefusal(grpc.StatusCode[name], message if isinstance(message, str) else "", reason)


def _find_reason(error: dict[str, Any]) -> str | None:
    for listed in (error.get("data"), error.get("details")):
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and isinstance(one.get("reason"), str):
                reason: str = one["reason"]
                return reason
    return None
