"""Validate values against JSON Schemas, without network access and with bounded pattern matching."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from placet.protocol.schema_work import MAX_WORK_WITH_ERRORS, SchemaWork, TooMuchWork

if TYPE_CHECKING:
    import jsonschema_rs

_MAX_PROBLEMS = 20
"""The maximum number of violations that are listed."""


class UnusableSchema(ValueError):
    """Not a JSON Schema that can be used without network access."""


def find_violations(schema: Mapping[str, Any], value: Any) -> list[str]:
    """Return the violations of a schema, one line each with the path first; empty if the value is valid."""
    if check_work(schema, value):
        return list_violations(compile_schema(schema), value)
    return [] if compile_schema(schema).is_valid(value) else ["the value does not match the schema"]


def list_violations(checker: "jsonschema_rs.Validator", value: Any) -> list[str]:
    """Return the violations, as `find_violations`, with a validator of `compile_schema`."""
    found: list[str] = []
    for error in checker.iter_errors(value):
        where = ".".join(str(step) for step in error.instance_path)
        found.append(f"{where}: {error.message}" if where else error.message)
        if len(found) == _MAX_PROBLEMS:
            break
    return found


def compile_schema(schema: Mapping[str, Any]) -> "jsonschema_rs.Validator":
    """Return a cached validator for the schema; raises UnusableSchema."""
    return _compile_schema_text(_write_schema(schema))


def check_work(schema: Mapping[str, Any], value: Any) -> bool:
    """Return whether violations may be described too; raises UnusableSchema if validation takes too long."""
    compile_schema(schema)
    try:
        return _load_work(_write_schema(schema)).compute_bound(value) <= MAX_WORK_WITH_ERRORS
    except TooMuchWork as error:
        raise UnusableSchema(str(error)) from error


def _write_schema(schema: Mapping[str, Any]) -> str:
    import json

    return json.dumps(schema, sort_keys=True)


@lru_cache(maxsize=256)
def _load_work(written: str) -> SchemaWork:
    import json

    return SchemaWork(json.loads(written))


@lru_cache(maxsize=256)
def _compile_schema_text(written: str) -> "jsonschema_rs.Validator":
    import json

    import jsonschema_rs

    try:
        _load_work(written)
    except TooMuchWork as error:
        raise UnusableSchema(str(error)) from error
    # Try the engine without backtracking first; the other one stops after a limited number of steps.
    trouble: Exception | None = None
    for patterns in (jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000)):
        try:
            return jsonschema_rs.validator_for(json.loads(written), pattern_options=patterns, offline=True)
        except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError) as error:
            trouble = error
    raise UnusableSchema(str(trouble).splitlines()[0]) from trouble
