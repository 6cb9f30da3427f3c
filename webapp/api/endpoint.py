"""What an endpoint takes and answers, said once: it is checked, and it is documented."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

import msgspec
from flask import request

from dtq_engine import InvalidTask
from dtq_engine.strict import Reader
from webapp.api.reading import Nothing, read_body, read_query
from webapp.border import Environ
from webapp.problems import Problem
from webapp.rights import authorize
from webapp.roles import Role

F = TypeVar("F", bound=Callable[..., Any])

EVERYBODY = tuple(Role)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An endpoint: who may call it, what it reads, what it answers by status, and the codes of its own problems."""

    summary: str
    roles: tuple[Role, ...]
    answers: Mapping[int, Any]
    query: type[Any] = Nothing
    body: type[Any] | None = None
    misfit: str = "INVALID_BODY"
    problems: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()
    example: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def body_is_optional(self) -> bool:
        """Whether no body is as good as an empty object, as nothing in it is needed."""
        return self.body is not None and not any(each.required for each in msgspec.structs.fields(self.body))


def endpoint(operation: Operation) -> Callable[[F], F]:
    """Make a function the view of an endpoint: it gets `query` and `body` as it says it takes them."""
    reader = None if operation.body is None else Reader(operation.body)
    optional = operation.body_is_optional

    def guard(view: F) -> F:
        @wraps(view)
        def guarded(**arguments: Any) -> Any:
            environ = request.environ
            authorize(*operation.roles, environ=environ)
            if operation.query is not Nothing:
                arguments["query"] = read_query(request, operation.query)
            elif environ.get("QUERY_STRING"):
                read_query(request, Nothing)
            if reader is not None:
                arguments["body"] = _body(environ, operation, reader, optional)
            return view(**arguments)

        guarded.dtq_roles = operation.roles  # type: ignore[attr-defined]
        guarded.dtq_operation = operation  # type: ignore[attr-defined]
        return cast(F, guarded)

    return guard


def _body(environ: Environ, operation: Operation, reader: Reader[Any], optional: bool) -> Any:
    try:
        return read_body(environ, reader, optional=optional)
    except InvalidTask as error:
        raise Problem(400, operation.misfit, str(error), more={"field": error.field}) from None


def operation_of(view: Callable[..., Any]) -> Operation | None:
    """What a view says it takes and answers; None if it is no endpoint of the API."""
    return cast("Operation | None", getattr(view, "dtq_operation", None))
