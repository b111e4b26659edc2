"""JSON Schemas of the API's messages, generated from the structs that read and write them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_origin

import msgspec
from msgspec import Struct, inspect

REFERENCE = "#/components/schemas/{name}"
Schema = dict[str, Any]


class ComponentSchemas:
    """Builds the schemas of an API's messages: those it reads and those it only writes."""

    def __init__(self, *, read: Iterable[Any], written: Iterable[Any]) -> None:
        asked, answered = list(read), list(written)
        models = [*asked, *answered]
        structs = list(_list_structs(models))
        drawn, components = msgspec.json.schema_components([*models, *structs], ref_template=REFERENCE)
        self._drawn = {repr(model): schema for model, schema in zip(models, drawn, strict=False)}
        self.components: dict[str, Schema] = components
        names = {
            struct: schema["$ref"].rpartition("/")[2]
            for struct, schema in zip(structs, drawn[len(models) :], strict=True)
        }
        also_read = set(_list_structs(asked))
        for struct in _list_structs(answered):
            if struct not in also_read:
                components[names[struct]] = as_written(components[names[struct]], struct)

    def build_schema(self, model: Any) -> Schema:
        """Return the schema of a model given to the constructor; a reference if it is named."""
        return dict(self._drawn[repr(model)])


def as_written(schema: Schema, struct: type[Struct]) -> Schema:
    """Return the schema of a message that is only sent: fields that are never null are not nullable, and
    fields that are always present are required."""
    properties = dict(schema["properties"])
    required = list(schema.get("required", ()))
    for name, shown in properties.items():
        if "default" not in shown:
            continue
        bare = {key: value for key, value in shown.items() if key != "default"}
        if _find_generic_struct(struct).__struct_config__.omit_defaults:
            properties[name] = _drop_null(bare) if shown["default"] is None else bare
        else:
            properties[name] = bare
            required.append(name)
    return {**schema, "properties": properties, "required": required}


def _find_generic_struct(struct: Any) -> type[Struct]:
    """Return the generic struct of a parametrized one; any other type unchanged."""
    found: type[Struct] = get_origin(struct) or struct
    return found


def _drop_null(schema: Schema) -> Schema:
    if "anyOf" not in schema:  # anything at all
        return schema
    others = [branch for branch in schema["anyOf"] if branch != {"type": "null"}]
    kept = {key: value for key, value in schema.items() if key != "anyOf"}
    return {**kept, **others[0]} if len(others) == 1 else {**kept, "anyOf": others}


def _list_structs(models: Sequence[Any]) -> Iterator[type[Struct]]:
    """Return every struct that these models contain, each once."""
    seen: set[type] = set()
    waiting: list[Any] = list(inspect.multi_type_info(models))
    while waiting:
        info = waiting.pop()
        if isinstance(info, inspect.StructType) and info.cls not in seen:
            seen.add(info.cls)
            waiting += [field.type for field in info.fields]
            yield info.cls
        elif not isinstance(info, inspect.StructType):
            waiting += _list_parts(info)


def _list_parts(info: Any) -> list[Any]:
    """Return the types that a msgspec type contains."""
    found: list[Any] = []
    for name in getattr(info, "__struct_fields__", ()):
        part = getattr(info, name)
        found += part if isinstance(part, tuple) else [part]
    return [part for part in found if isinstance(part, inspect.Type)]
