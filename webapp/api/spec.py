"""The API's description (OpenAPI 3.1), made from the classes that check what comes in and say what goes out."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from flask import Blueprint, Response, current_app, request
from werkzeug.routing import Rule
from werkzeug.urls import iri_to_uri

from webapp.answers import reply
from webapp.api.endpoint import EVERYBODY, Operation, endpoint, operation_of
from webapp.api.reading import Nothing
from webapp.api.responses import ProblemBody
from webapp.errors import CODES

blueprint = Blueprint("spec", __name__)

STATUS: Mapping[str, int] = {code: status for status, code in CODES.values()} | {
    "UNAUTHORIZED": 401,
    "FORBIDDEN": 403,
    "CROSS_SITE": 403,
    "INVALID_PARAMETER": 400,
    "INVALID_BODY": 400,
    "INVALID_FILTER": 400,
    "EMPTY_BODY": 400,
    "BODY_BROKEN": 400,
    "BODY_TOO_SLOW": 408,
    "QUEUE_NOT_FOUND": 404,
    "BODY_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "UNSUPPORTED_ENCODING": 415,
    "TOO_MANY_WAITERS": 503,
    "NOT_CONFIGURED": 503,
}
"""The status of each code."""

ALWAYS = ("UNAUTHORIZED", "FORBIDDEN", "REDIS_UNAVAILABLE", "REDIS_REFUSED", "REDIS_DAMAGED", "NOT_CONFIGURED")
WITH_QUERY = ("INVALID_PARAMETER",)
WITH_BODY = (
    "INVALID_JSON",
    "EMPTY_BODY",
    "BODY_BROKEN",
    "BODY_TOO_SLOW",
    "BODY_TOO_LARGE",
    "UNSUPPORTED_MEDIA_TYPE",
    "UNSUPPORTED_ENCODING",
)
BY_BROWSER = ("CROSS_SITE",)

REFERENCE = "#/components/schemas/{name}"
JSON = "application/json"
PROBLEM = "application/problem+json"

PATH_PARAMETERS = {
    "task_id": ("A task's id.", "01K8ME0V9VJ3X0D1M2Q6ZB7C5F"),
    "queue": ("A queue's name.", "reports"),
    "name": ("The name of a limit or of a periodic task, as they are listed.", "nightly"),
}
HEADERS = {"Idempotency-Key": "Sending it again gives the same task. Quoted or bare; it wins over the body's key."}

Json = dict[str, Any]


@blueprint.get("/openapi.json")
@endpoint(Operation(summary="This description", roles=EVERYBODY, answers={200: dict[str, Any]}))
def openapi() -> Response:
    """OpenAPI 3.1."""
    return reply(document(iri_to_uri(request.script_root)))


def document(root: str) -> Json:
    """The description of the current app's API, which is found under `root`."""
    found = list(_operations())
    schemas = _Schemas([operation for _, operation, _ in found])
    paths: dict[str, Json] = {}
    for rule, operation, text in found:
        methods = (rule.methods or set()) - {"HEAD", "OPTIONS"}
        path = re.sub(r"<(?:path:)?(\w+)>", r"{\1}", rule.rule).removeprefix("/api/v1")
        for method in methods:
            paths.setdefault(path, {})[method.lower()] = _described(rule, operation, text, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dtq",
            "version": "1",
            "description": "A task queue in which every accepted task reaches exactly one outcome.",
        },
        "servers": [{"url": f"{root}/api/v1"}],
        "security": [{"key": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "A key of DTQ_API_KEYS."}},
        },
    }


def _operations() -> Iterator[tuple[Rule, Operation, str]]:
    for rule in sorted(current_app.url_map.iter_rules(), key=lambda rule: rule.rule):
        view = current_app.view_functions[rule.endpoint]
        operation = operation_of(view)
        if operation is not None and rule.rule.startswith("/api/v1"):
            yield rule, operation, view.__doc__ or ""


class _Schemas:
    """The JSON Schemas of all classes that operations name."""

    def __init__(self, operations: list[Operation]) -> None:
        kinds: list[Any] = [ProblemBody]
        for operation in operations:
            kinds += [operation.query, *operation.answers.values()]
            kinds += [] if operation.body is None else [operation.body]
        unique = list(dict.fromkeys(kinds))
        found, self.components = msgspec.json.schema_components(unique, ref_template=REFERENCE)
        self._of = dict(zip(unique, found, strict=True))

    def of(self, kind: Any) -> Json:
        """The schema of a class, as a reference."""
        schema: Json = self._of[kind]
        return schema

    def parameters(self, kind: Any) -> Iterator[Json]:
        """The fields of a class as parameters of an address."""
        if kind is Nothing:
            return
        schema = self.components[kind.__name__]
        for name, of_field in schema["properties"].items():
            yield {"name": name, "in": "query", "required": False, "schema": _without_null(of_field)}


def _without_null(schema: Json) -> Json:
    """A parameter is left out, never null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    return kinds[0] if len(kinds) == 1 else schema


def _described(rule: Rule, operation: Operation, text: str, schemas: _Schemas) -> Json:
    described: Json = {
        "operationId": rule.endpoint.removeprefix("api.").replace(".", "_"),
        "summary": operation.summary,
        "description": f"{text.strip()} Needs the role {' or '.join(operation.roles)}.",
        "tags": [rule.rule.split("/")[3]],
        "parameters": [*_path_parameters(rule), *schemas.parameters(operation.query), *_headers(operation)],
        "responses": _answers(operation, schemas) | _problems(operation, schemas),
    }
    if operation.body is not None:
        content: Json = {"schema": schemas.of(operation.body)}
        if operation.example:
            content["example"] = dict(operation.example)
        described["requestBody"] = {"required": not operation.body_is_optional, "content": {JSON: content}}
    return described


def _path_parameters(rule: Rule) -> Iterator[Json]:
    for name, (description, example) in PATH_PARAMETERS.items():
        if f"<{name}>" in rule.rule.replace("<path:", "<"):
            schema = {"type": "string", "description": description, "examples": [example]}
            yield {"name": name, "in": "path", "required": True, "schema": schema}


def _headers(operation: Operation) -> Iterator[Json]:
    for name in operation.headers:
        schema = {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"}
        yield {"name": name, "in": "header", "required": False, "description": HEADERS[name], "schema": schema}


def _answers(operation: Operation, schemas: _Schemas) -> Json:
    return {
        str(status): {"description": operation.summary, "content": {JSON: {"schema": schemas.of(kind)}}}
        for status, kind in operation.answers.items()
    }


def _problems(operation: Operation, schemas: _Schemas) -> Json:
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes_of(operation)):
        by_status.setdefault(STATUS[code], []).append(code)
    return {
        str(status): {
            "description": ", ".join(codes),
            "content": {PROBLEM: {"schema": schemas.of(ProblemBody), "examples": _examples(status, codes)}},
        }
        for status, codes in sorted(by_status.items())
    }


def codes_of(operation: Operation) -> Iterator[str]:
    """The codes of all problems that an operation can answer with."""
    yield from ALWAYS
    yield from WITH_QUERY
    if operation.body is not None:
        yield operation.misfit
        yield from (*WITH_BODY, *BY_BROWSER)
    yield from operation.problems


def _examples(status: int, codes: list[str]) -> Json:
    return {
        code: {"value": {"title": "…", "status": status, "code": code, "detail": "…", "request_id": "5f3c"}}
        for code in codes
    }
