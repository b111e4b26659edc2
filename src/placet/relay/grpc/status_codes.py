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
    """A call ends with a gRPC error status."""

    def __init__(self, code: grpc.StatusCode, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason

    def trailers(self) -> tuple[tuple[str, bytes], ...]:
        """Return the trailing metadata with the full status, as A2A clients expect it."""
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        if self.reason is not None:
            packed = any_pb2.Any()
            packed.Pack(error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN))
            status.details.append(packed)
        return ((DETAILS, status.SerializeToString()),)


def refusal_from_error(failure: PlacetError | A2AError) -> GrpcRefusal:
    """Return the refusal for an exception."""
    if isinstance(failure, A2AError):
        codes = failure.codes
        return GrpcRefusal(grpc.StatusCode[codes.rpc_status], failure.message, codes.reason)
    return GrpcRefusal(CODES_BY_HTTP_STATUS.get(failure.status, grpc.StatusCode.INTERNAL), failure.message)


def refusal_from_document(error: Any) -> GrpcRefusal:
    """Return the refusal for an error in A2A JSON, in either binding."""
    fields = error if isinstance(error, dict) else {}
    code, message = fields.get("code"), fields.get("message")
    codes = _BY_CODE.get(code, _UNKNOWN) if isinstance(code, int) else _UNKNOWN
    name, reason = codes.rpc_status, _find_reason(fields) or codes.reason
    if isinstance(fields.get("status"), str) and fields["status"] in grpc.StatusCode.__members__:
        name = fields["status"]
    return GrpcRefusal(grpc.StatusCode[name], message if isinstance(message, str) else "", reason)


def _find_reason(error: dict[str, Any]) -> str | None:
    for details in (error.get("data"), error.get("details")):
        for detail in details if isinstance(details, list) else ():
            if isinstance(detail, dict) and isinstance(detail.get("reason"), str):
                reason: str = detail["reason"]
                return reason
    return None
