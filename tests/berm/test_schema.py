"""Our check of JSON Schemas decides as the meta-schemas do, which the `jsonschema` package interprets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft6Validator, Draft7Validator, Draft201909Validator, Draft202012Validator

import berm
from berm.schema import check_schema

DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": Draft202012Validator,
    "https://json-schema.org/draft/2019-09/schema": Draft201909Validator,
    "http://json-schema.org/draft-07/schema#": Draft7Validator,
    "http://json-schema.org/draft-06/schema#": Draft6Validator,
}
KEYWORDS = [
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$ref",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "default",
    "definitions",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "readOnly",
    "required",
    "then",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
    "writeOnly",
    "unknown",
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.sampled_from(
        [0.5, -0.5, 2.0, "string", "object", "integer", "nope", "", "#x", "x#", "a#b", "A.b-c", "_x", "9"]
    )
)
NAMES = st.sampled_from(["a", "b", "string", "array", "null"])


def values(inner):
    return (
        st.lists(inner, max_size=3)
        | st.lists(NAMES, max_size=3)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3)
        | st.dictionaries(NAMES, inner, max_size=2)
    )


SCHEMAS = st.dictionaries(st.sampled_from(KEYWORDS), st.recursive(SCALARS, values, max_leaves=6), max_size=3)


def accepted(schema):
    try:
        check_schema(schema, "here")
    except berm.ManifestError as error:
        assert error.place.startswith("here")  # noqa: PT017 - accepted or not is the question
        return False
    return True


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=100, deadline=None)
@given(schema=SCHEMAS)
def test_decides_as_the_meta_schema_does(dialect, schema):
    schema = {**schema, "$schema": dialect}
    validator = DIALECTS[dialect](DIALECTS[dialect].META_SCHEMA)
    assert accepted(schema) == validator.is_valid(schema)


@pytest.mark.parametrize("keyword", KEYWORDS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_keyword_decides_as_the_meta_schema_does(dialect, keyword):
    validator = DIALECTS[dialect](DIALECTS[dialect].META_SCHEMA)
    tried = [
        None, True, 0, 1, -1, 1.0, 1.5, "string", "", [], ["a"], ["a", "a"], ["string"], [1], [{}], [True],
        [[]], {}, {"a": True}, {"a": {}}, {"a": 1}, {"a": ["b"]}, {"a": ["b", "b"]}, {"type": 1},
        {"a": {"type": 1}}, "a#b", "#", "x#", "A", "9a", "a:b", "_a",
    ]  # fmt: skip
    for value in tried:
        schema = {"$schema": dialect, keyword: value}
        assert accepted(schema) == validator.is_valid(schema), schema


@pytest.mark.parametrize(
    ("schema", "reason", "place"),
    [
        ({"type": "strin"}, "expected one or several types of", "here.type"),
        (
            {"properties": {"a": {"minLength": -1}}},
            "expected an integer from 0, got the number -1",
            "here.properties.a.minLength",
        ),
        (
            {"anyOf": [True, 3]},
            "expected a schema (an object or a boolean), got the number 3",
            "here.anyOf[1]",
        ),
        ({"allOf": []}, "expected a list of schemas, one at least, got an empty list", "here.allOf"),
        ({"required": ["a", "a"]}, "expected a list of different strings, got a list", "here.required"),
        ({"required": "a"}, "expected a list of different strings, got the string 'a'", "here.required"),
        ({"properties": []}, "expected an object, got an empty list", "here.properties"),
        (
            {"$schema": "http://x.test/s"},
            "unknown dialect the string 'http://x.test/s', expected 2020-12",
            "here.$schema",
        ),
        ({"$schema": 3}, "unknown dialect the number 3", "here.$schema"),
        (
            {"properties": {"a\n" + "b" * 99: {"type": 1}}},
            "expected one or",
            f"here.properties.a\\n{'b' * 38}….type",
        ),
    ],
)
def test_reason_and_place_are_named(schema, reason, place):
    with pytest.raises(berm.ManifestError) as caught:
        check_schema(schema, "here")
    assert reason in caught.value.reason
    assert caught.value.place == place


def test_references_are_not_followed():
    check_schema({"$ref": "http://127.0.0.1:1/never", "items": {"$ref": "#/nowhere"}}, "here")
