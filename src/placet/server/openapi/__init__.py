"""The API's description as an OpenAPI 3.1 document: routes as data, schemas from the structs."""

from placet.server.openapi.document import openapi_document
from placet.server.openapi.with_relay import openapi_with_relay

__all__ = ["openapi_document", "openapi_with_relay"]
