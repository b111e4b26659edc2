"""A small OpenAPI document with everything in it that the page of the API can show."""

from typing import Any

OPENAPI: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Placet", "version": "1", "description": "Open cases.\nFollow them."},
    "paths": {
        "/v1/cases": {
            "post": {
                "operationId": "openCase",
                "summary": "Put a question before a person",
                "parameters": [
                    {"$ref": "#/components/parameters/Key"},
                    {"name": "dry", "in": "query", "schema": {"type": ["boolean", "null"]}},
                ],
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/CaseDraft"}}}
                },
                "responses": {
                    "202": {
                        "description": "The case is open.",
                        "content": {"application/json": {"schema": {}}},
                    },
                    "400": {"description": "Something does not fit."},
                },
            }
        },
        "/metrics": {
            "get": {"responses": {"200": {"description": "Figures", "content": {"text/plain": {}}}}}
        },
    },
    "components": {
        "parameters": {
            "Key": {"name": "Idempotency-Key", "in": "header", "required": True, "schema": {"type": "string"}}
        },
        "schemas": {
            "CaseDraft": {
                "type": "object",
                "description": "What a service asks.",
                "required": ["type"],
                "properties": {
                    "type": {"enum": ["approval", "selection"], "description": "The kind."},
                    "version": {"const": "0.9"},
                    "reminder_at": {
                        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "array", "items": {}}]
                    },
                    "surface": {"$ref": "#/components/schemas/Surface"},
                    "anything": True,
                },
            },
            "Surface": {"type": "object"},
        },
    },
}
