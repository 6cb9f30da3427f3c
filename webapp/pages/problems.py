"""What programs get as problem details, a person gets as a page that says what to do."""

from typing import cast

import msgspec
from flask import Blueprint, Response, redirect, request, url_for

from webapp.pages.render import plain_page
from webapp.state import web

blueprint = Blueprint("problems", __name__)

JSON = "application/problem+json"
ACCEPTED = ["text/html", "application/json", JSON]


class _Said(msgspec.Struct):
    title: str
    status: int
    code: str
    detail: str
    request_id: str


_decoder = msgspec.json.Decoder(_Said)


@blueprint.after_app_request
def _for_people(response: Response) -> Response:
    if response.content_type != JSON or request.path.startswith("/api/") or not _is_person():
        return response
    said = _decoder.decode(response.data)
    page = _page(said)
    for name, value in response.headers:
        if name in {"Retry-After", "WWW-Authenticate", "Allow"}:
            page.headers[name] = value
    return page


def _is_person() -> bool:
    accepts = request.accept_mimetypes
    return accepts.best_match(ACCEPTED) == "text/html" and accepts["text/html"] > accepts["application/json"]


def _page(said: _Said) -> Response:
    has_passwords = web().settings.secret_key is not None
    if request.endpoint == "login.sign_in":
        return login_page(said.status, problem=said.detail)
    if said.status == 401 and has_passwords and request.method == "GET" and "HX-Request" not in request.headers:
        here = request.script_root + request.full_path.rstrip("?")
        return cast(Response, redirect(url_for("pages.login.form", next=here)))
    again = said.status == 503 and request.method == "GET"
    return plain_page("problem.html", said.status, said=said, has_passwords=has_passwords, again=again)


def login_page(status: int = 200, problem: str | None = None) -> Response:
    """The form by which people sign in."""
    return plain_page(
        "login.html",
        status,
        problem=problem,
        name=request.form.get("name", ""),
        next=request.values.get("next", ""),
        has_passwords=web().settings.secret_key is not None,
    )
