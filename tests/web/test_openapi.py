"""The API's own description: well-formed, complete, and with examples that work."""

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from tests.web.contract import validator
from webapp.api.endpoint import operation_of
from webapp.api.spec import STATUS, codes_of, document
from webapp.errors import CODES

NOT_OF_THE_API = {"HOOK_FAILED"}
"""A fault of the app that the web process is part of."""


@pytest.fixture
def described(api):
    """The description as it is answered."""
    return api.get("/api/v1/openapi.json").json


def operations(described):
    """All operations with their path and method."""
    return [
        (path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_endpoint_is_described_with_its_errors(web, described):
    rules = [rule for rule in web.url_map.iter_rules() if rule.rule.startswith("/api/")]
    assert len(operations(described)) == len(rules)
    for path, method, operation in operations(described):
        assert operation["summary"], path
        assert operation["description"], path
        named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path))
        assert {"401", "403", "503"} <= operation["responses"].keys(), (method, path)


def test_every_reference_leads_somewhere(described):
    def references(value):
        if isinstance(value, dict):
            yield from [value["$ref"]] if "$ref" in value else []
            yield from (each for inner in value.values() for each in references(inner))
        elif isinstance(value, list):
            yield from (each for inner in value for each in references(inner))

    names = {each.removeprefix("#/components/schemas/") for each in references(described["paths"])}
    assert names <= described["components"]["schemas"].keys()


def test_every_schema_is_a_schema(described):
    for schema in described["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"})


def test_examples_fit_what_they_are_examples_of(described):
    for path, method, operation in operations(described):
        for kind in [operation.get("requestBody", {}), *operation["responses"].values()]:
            for content in kind.get("content", {}).values():
                examples = [each["value"] for each in content.get("examples", {}).values()]
                for example in examples + ([content["example"]] if "example" in content else []):
                    assert validator(described, content["schema"]).is_valid(example), (method, path, example)


def test_every_body_has_an_example(described):
    for path, method, operation in operations(described):
        for content in operation.get("requestBody", {}).get("content", {}).values():
            assert content["example"], (method, path)


def test_every_code_that_is_answered_is_described(web):
    with web.app_context():
        described = json.dumps(document(""))
    answered = {code for _, code in CODES.values()} - NOT_OF_THE_API
    assert [code for code in sorted(answered) if f'"{code}"' not in described] == []
    sources = "".join(path.read_text() for path in (Path(web.root_path) / "api").glob("*.py"))
    raised = set(re.findall(r'Problem\(\s*[0-9]{3},\s*"([A-Z_]+)"', sources))
    assert {"INVALID_PARAMETER", "QUEUE_NOT_FOUND"} <= raised <= STATUS.keys()


def test_a_code_has_one_status_wherever_it_is_described(web):
    for view in web.view_functions.values():
        operation = operation_of(view)
        if operation is not None:
            assert [code for code in codes_of(operation) if code not in STATUS] == []
