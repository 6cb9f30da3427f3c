"""A client that holds each answer against what the API says of itself."""

import functools
from typing import Any

import jsonschema_rs
from flask.testing import FlaskClient
from werkzeug.exceptions import HTTPException
from werkzeug.test import TestResponse

from dtq_engine import Dtq, Settings
from webapp import create_app
from webapp.api.endpoint import operation_of
from webapp.api.spec import document


class ContractClient(FlaskClient):
    """As Flask's own; an answer of the API that is not documented, or does not fit its schema, fails the test."""

    def open(self, *args: Any, **kwargs: Any) -> TestResponse:
        """Make a request."""
        answer = super().open(*args, **kwargs)
        self._check(answer)
        return answer

    def _check(self, answer: TestResponse) -> None:
        environ = answer.request.environ
        try:
            endpoint, _ = self.application.url_map.bind_to_environ(environ).match()
        except HTTPException:
            return
        operation = operation_of(self.application.view_functions[endpoint])
        if operation is None or answer.status_code == 500:
            return
        operation_id = endpoint.removeprefix("api.").replace(".", "_")
        content_type, judge = documented(operation_id, answer.status_code)
        assert answer.mimetype == content_type
        judge.validate(answer.json)


@functools.cache
def described() -> dict[str, Any]:
    """The API's description, which is the same for all web processes."""
    with create_app(Dtq(Settings(open=True))).app_context():
        return document("")


@functools.cache
def documented(operation_id: str, status: int) -> tuple[str, Any]:
    """The content type of an answer, and what judges its body."""
    for path in described()["paths"].values():
        for operation in path.values():
            if operation["operationId"] == operation_id:
                assert str(status) in operation["responses"], f"{operation_id} may not answer with {status}"
                ((kind, content),) = operation["responses"][str(status)]["content"].items()
                return kind, validator(described(), content["schema"])
    raise AssertionError(f"{operation_id} is not described")


def validator(described: dict[str, Any], schema: dict[str, Any]) -> Any:
    """What judges values by a schema of the description."""
    return jsonschema_rs.Draft202012Validator(strict(schema) | {"components": strict(described["components"])})


def strict(schema: Any) -> Any:
    """The schema with members that it does not name forbidden, as answers must have none."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {"additionalProperties": False} if "properties" in schema else {}
    return closed | {name: strict(inner) for name, inner in schema.items()}
