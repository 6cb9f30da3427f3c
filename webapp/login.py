"""Signing in and out, by name and password: for the pages, and for whoever would use the API in a browser."""

import msgspec
from flask import Blueprint, Response, redirect, request, session

from dtq_engine import InvalidTask
from dtq_engine.strict import Reader
from webapp.answers import reply
from webapp.api.reading import read_body
from webapp.identity import User
from webapp.origin import is_same_site, keeps_cookies, own_path
from webapp.problems import Problem
from webapp.rights import SESSION_USER, SESSION_VERSION, public
from webapp.state import web

blueprint = Blueprint("login", __name__)


PLAIN = (
    "The password is right, but over plain HTTP your browser would not keep the session: open this site with https://. "
    "Whoever runs it: put a proxy with TLS in front, and set DTQ_TRUSTED_PROXIES to the number of proxies."
)


class Credentials(msgspec.Struct, forbid_unknown_fields=True):
    """Who someone says they are."""

    name: str
    password: str


_reader = Reader(Credentials)


@blueprint.post("/login")
@public
def sign_in() -> Response:
    """A session for whoever gives their password, as JSON or as a form; a form goes on to `next`, a path of ours."""
    _refuse_other_sites()
    if web().settings.secret_key is None:
        raise Problem(404, "NO_PASSWORDS", "Nobody has a password here: set DTQ_USERS and DTQ_SECRET_KEY.")
    given = _credentials()
    user = web().passwords.check(given.name, given.password, request.remote_addr or "")
    if not keeps_cookies():
        raise Problem(403, "NEEDS_TLS", PLAIN)
    _begin(user)
    return _answer({"name": user.name, "role": user.role})


@blueprint.post("/logout")
@public
def sign_out() -> Response:
    """Ends the session, if there is one."""
    _refuse_other_sites()
    session.clear()
    return _answer({})


def _credentials() -> Credentials:
    if request.mimetype == "application/x-www-form-urlencoded":
        return Credentials(request.form.get("name", ""), request.form.get("password", ""))
    try:
        return read_body(request.environ, _reader)
    except InvalidTask as error:
        raise Problem(400, "INVALID_BODY", str(error), more={"field": error.field}) from None


def _begin(user: User) -> None:
    session.clear()
    session.permanent = True
    session[SESSION_USER] = user.name
    session[SESSION_VERSION] = user.version


def _answer(body: dict[str, str]) -> Response:
    if request.mimetype != "application/x-www-form-urlencoded":
        return reply(body)
    return redirect(own_path(request.form.get("next", "")), 303)  # type: ignore[return-value]


def _refuse_other_sites() -> None:
    if is_same_site() is not True:
        raise Problem(403, "CROSS_SITE", "Sign in and out on the pages of this site.")
