"""Some value that fits a JSON schema, the same for the same seed."""

from __future__ import annotations

import random

from dragoman.core.canonical import JSON, JSONObject

_WORDS = ("calm", "clear", "kind", "open", "quiet", "steady", "warm")


def generate(schema: JSONObject, seed: str) -> JSON:
    """One value for the schema: types, enums, references, alternatives, bounds.

    >>> generate({"type": "object", "properties": {"n": {"const": 3}}}, "x")
    {'n': 3}
    """
    return _value(schema, schema, random.Random(seed))  # noqa: S311 - no secret


def _value(schema: JSON, root: JSONObject, chance: random.Random) -> JSON:
    if not isinstance(schema, dict):
        return None
    if "const" in schema:
        return schema["const"]
    for name in ("enum", "anyOf", "oneOf"):
        choices = schema.get(name)
        if isinstance(choices, list) and choices:
            chosen = chance.choice(choices)
            return chosen if name == "enum" else _value(chosen, root, chance)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return _value(_resolve(root, reference), root, chance)
    return _of_type(schema, root, chance)


def _of_type(schema: JSONObject, root: JSONObject, chance: random.Random) -> JSON:
    kind = schema.get("type")
    match kind[0] if isinstance(kind, list) and kind else kind:
        case "object":
            properties = schema.get("properties")
            inner = properties.items() if isinstance(properties, dict) else ()
            return {name: _value(sub, root, chance) for name, sub in inner}
        case "array":
            length = _bound(schema, "minItems", 1)
            return [_value(schema.get("items"), root, chance) for _ in range(length)]
        case "integer" | "number":
            return _bound(schema, "minimum", 1)
        case "boolean":
            return chance.random() < 0.5
        case "string":
            return chance.choice(_WORDS).ljust(_bound(schema, "minLength", 0), "y")
        case _:
            return None


def _bound(schema: JSONObject, name: str, default: int) -> int:
    value = schema.get(name)
    return int(value) if isinstance(value, (int, float)) else default


def _resolve(root: JSONObject, reference: str) -> JSON:
    """What a reference inside the document names, such as #/$defs/Topic."""
    inner = root
    for name in reference.removeprefix("#").strip("/").split("/"):
        found = inner.get(name)
        if not isinstance(found, dict):
            return None
        inner = found
    return inner
