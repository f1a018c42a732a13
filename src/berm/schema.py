"""Is this value a JSON Schema? The meta-schemas of four dialects as one table of keywords.

A meta-schema says, for each keyword, what shape its value has; walking a schema against that table is all
that checking takes. docs/dependencies.md says why this is not left to a library; tests compare it with one.
References are not followed and patterns not compiled: nothing is fetched, and regular expressions here are
ECMA's.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from berm.errors import ManifestError
from berm.strict_json import join

# What every check takes: the value, its place, and the dialect for schemas inside. It raises or returns.
Check = Callable[[Any, str, "Keywords"], None]
Keywords = Mapping[str, Check]

_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NEWEST = "https://json-schema.org/draft/2020-12/schema"


def check_schema(value: Any, place: str) -> None:  # noqa: ANN401 - JSON is any value
    """Check a schema against the meta-schema that its `$schema` names, 2020-12 if none.

    Raises:
        ManifestError: if it is not a JSON Schema, with the place, which starts with `place`.
    """
    dialect = value.get("$schema", _NEWEST) if isinstance(value, dict) else _NEWEST
    keywords = _DIALECTS.get(dialect.removesuffix("#")) if isinstance(dialect, str) else None
    if keywords is None:
        known = "2020-12, 2019-09, draft-07 or draft-06"
        raise ManifestError(f"unknown dialect {_kind(dialect)}, expected {known}", f"{place}.$schema")
    _schema(value, place, keywords)


def _fail(expected: str, value: Any, place: str) -> NoReturn:  # noqa: ANN401
    raise ManifestError(f"not a JSON Schema: expected {expected}, got {_kind(value)}", place)


def _kind(value: Any) -> str:  # noqa: ANN401
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return f"the string {value[:60]!a}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "an object" if isinstance(value, dict) else f"the number {value}"


def _schema(value: Any, place: str, keywords: Keywords) -> None:  # noqa: ANN401
    if isinstance(value, dict):
        for key, inner in value.items():
            check = keywords.get(key)
            if check is not None:
                check(inner, join(place, key), keywords)
    elif not isinstance(value, bool):
        _fail("a schema (an object or a boolean)", value, place)


def _schemas(value: Any, place: str, keywords: Keywords) -> None:  # noqa: ANN401
    if not isinstance(value, list) or not value:
        _fail("a list of schemas, one at least", value, place)
    for index, inner in enumerate(value):
        _schema(inner, f"{place}[{index}]", keywords)


def _names(value: Any, place: str, _keywords: Keywords) -> None:  # noqa: ANN401
    strings = isinstance(value, list) and all(isinstance(name, str) for name in value)
    if not strings or len(set(value)) != len(value):
        _fail("a list of different strings", value, place)


def _types(value: Any, place: str, _keywords: Keywords) -> None:  # noqa: ANN401
    named = value if isinstance(value, list) else [value]
    known = all(isinstance(name, str) and name in _TYPES for name in named)
    if not named or not known or len(set(named)) != len(named):
        _fail(f"one or several types of {', '.join(sorted(_TYPES))}", value, place)


def _schema_or(listed: Check) -> Check:
    def check(value: Any, place: str, keywords: Keywords) -> None:  # noqa: ANN401
        (listed if isinstance(value, list) else _schema)(value, place, keywords)

    return check


def _by_name(inside: Check) -> Check:
    def check(value: Any, place: str, keywords: Keywords) -> None:  # noqa: ANN401
        if not isinstance(value, dict):
            _fail("an object", value, place)
        for key, inner in value.items():
            inside(inner, join(place, key), keywords)

    return check


def _leaf(expected: str, test: Callable[[Any], bool]) -> Check:
    def check(value: Any, place: str, _keywords: Keywords) -> None:  # noqa: ANN401
        if not test(value):
            _fail(expected, value, place)

    return check


def _text(expected: str, pattern: str) -> Check:
    compiled = re.compile(pattern)
    return _leaf(expected, lambda value: isinstance(value, str) and compiled.match(value) is not None)


def _is_number(value: Any) -> bool:  # noqa: ANN401
    return isinstance(value, int | float) and not isinstance(value, bool)


_string = _leaf("a string", lambda value: isinstance(value, str))
_boolean = _leaf("a boolean", lambda value: isinstance(value, bool))
_number = _leaf("a number", _is_number)
_positive = _leaf("a number above 0", lambda value: _is_number(value) and value > 0)
_count = _leaf("an integer from 0", lambda value: _is_number(value) and value >= 0 and value == int(value))
_list = _leaf("a list", lambda value: isinstance(value, list))
_anchor = _text("an anchor", r"[A-Za-z_][-A-Za-z0-9._]*\Z")

_COMMON: dict[str, Check] = {
    **dict.fromkeys(("$schema", "$ref", "title", "description", "pattern", "format"), _string),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"), _number),
    **dict.fromkeys(
        ("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), _count
    ),
    **dict.fromkeys(("contains", "additionalProperties", "propertyNames", "not"), _schema),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), _by_name(_schema)),
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _schemas),
    **dict.fromkeys(("enum", "examples"), _list),
    "$id": _string,
    "dependencies": _by_name(_schema_or(_names)),
    "multipleOf": _positive,
    "required": _names,
    "type": _types,
    "uniqueItems": _boolean,
}
_DRAFT_6 = {**_COMMON, "items": _schema_or(_schemas), "additionalItems": _schema}
_DRAFT_7 = {
    **_DRAFT_6,
    **dict.fromkeys(("if", "then", "else"), _schema),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "$comment"), _string),
    "readOnly": _boolean,
}
_DRAFT_2019 = {
    **_DRAFT_7,
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "contentSchema"), _schema),
    **dict.fromkeys(("$defs", "dependentSchemas"), _by_name(_schema)),
    **dict.fromkeys(("maxContains", "minContains"), _count),
    **dict.fromkeys(("writeOnly", "deprecated", "$recursiveAnchor"), _boolean),
    "$anchor": _text("an anchor", r"[A-Za-z][-A-Za-z0-9.:_]*\Z"),
    "$id": _text("an identifier without a fragment", r"[^#]*#?\Z"),
    "$recursiveRef": _string,
    "$vocabulary": _by_name(_boolean),
    "dependentRequired": _by_name(_names),
}
_DRAFT_2020 = {
    **_DRAFT_2019,
    **dict.fromkeys(("$anchor", "$dynamicAnchor", "$recursiveAnchor"), _anchor),
    "$dynamicRef": _string,
    "items": _schema,
    "prefixItems": _schemas,
}
del _DRAFT_2020["additionalItems"]

_DIALECTS: dict[str, Keywords] = {
    _NEWEST: _DRAFT_2020,
    "https://json-schema.org/draft/2019-09/schema": _DRAFT_2019,
    "http://json-schema.org/draft-07/schema": _DRAFT_7,
    "https://json-schema.org/draft-07/schema": _DRAFT_7,
    "http://json-schema.org/draft-06/schema": _DRAFT_6,
    "https://json-schema.org/draft-06/schema": _DRAFT_6,
}
