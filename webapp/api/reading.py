"""Requests, read strictly: what is wrong is said, and nothing is guessed."""

from typing import TypeVar

import msgspec
from flask import Request
from werkzeug.http import parse_options_header

from dtq_engine.strict import Reader, misfit
from webapp.border import Environ
from webapp.problems import Problem

BODY_MAX_BYTES = 16 * 1024 * 1024

T = TypeVar("T")


def read_body(environ: Environ, reader: Reader[T], *, optional: bool = False) -> T:
    """The body of a request. Raises InvalidTask or NotJson for what is in it, and a Problem for how it comes."""
    # A few kilobytes can be compressed gigabytes, and no client needs to compress what may have 16 MiB.
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() not in {"", "identity"}:
        raise Problem(415, "UNSUPPORTED_ENCODING", "Compressed bodies are not read: send it as it is.")
    data = _bytes(environ)
    if not data and optional:
        data = b"{}"
    elif not data:
        raise Problem(400, "EMPTY_BODY", "The body is empty: send a JSON object.")
    elif not _is_json(environ.get("CONTENT_TYPE", "")):
        raise Problem(
            415, "UNSUPPORTED_MEDIA_TYPE", "The body must be JSON: send it as Content-Type: application/json."
        )
    return reader.read(data)


def read_query(request: Request, kind: type[T]) -> T:
    """The parameters of a request's address. Raises a Problem."""
    given = request.args.to_dict(flat=False) if request.environ.get("QUERY_STRING") else {}
    if twice := next((name for name, values in given.items() if len(values) > 1), None):
        raise _wrong(twice, f"The parameter {twice[:64]} is given more than once: give it once.")
    try:
        found = msgspec.convert({name: values[0] for name, values in given.items()}, kind, strict=False)
    except msgspec.ValidationError as error:
        problem = misfit(str(error), kind, "the address")
        raise _wrong(problem.field, str(problem).replace("no field", "no parameter")) from None
    # msgspec reads the text null as None, which a parameter cannot be: it is given, or it is not.
    if null := next((name for name in given if getattr(found, name) is None), None):
        raise _wrong(null, f"{null}: it cannot be null: leave it out.")
    return found


class Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """No parameters."""


def _wrong(parameter: str, detail: str) -> Problem:
    return Problem(400, "INVALID_PARAMETER", detail, more={"parameter": parameter})


def _bytes(environ: Environ) -> bytes:
    """The body as it came."""
    length: str = environ.get("CONTENT_LENGTH", "")
    if not length:
        # Sent in chunks: its length is known when it has been read.
        data: bytes = environ["wsgi.input"].read(BODY_MAX_BYTES + 1) if environ.get("wsgi.input_terminated") else b""
        size = len(data)
    else:
        size = int(length) if length.isdecimal() else 0
        data = environ["wsgi.input"].read(size) if size <= BODY_MAX_BYTES else b""
    if size > len(data) and size <= BODY_MAX_BYTES:
        raise Problem(400, "BODY_BROKEN", "The body is shorter than its Content-Length: send it anew, whole.")
    if size > BODY_MAX_BYTES:
        raise Problem(413, "BODY_TOO_LARGE", "The body has more than 16 MiB: send several smaller ones.")
    return data


def _is_json(content_type: str) -> bool:
    if content_type == "application/json":
        return True
    kind, options = parse_options_header(content_type)
    is_json = kind.lower() == "application/json" or kind.lower().endswith("+json")
    return is_json and options.get("charset", "utf-8").lower() in {"utf-8", "utf8"}
