"""Who makes a request, and whether they may."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

from flask import Flask, request, session

from webapp.border import PRINCIPAL, Environ
from webapp.identity import UNCONFIGURED
from webapp.origin import SAFE, is_from_here, is_same_site
from webapp.problems import Problem
from webapp.roles import Principal, Role
from webapp.state import Web, web

__all__ = ["Role", "allowed_by", "authorize", "public", "register", "require", "who"]

F = TypeVar("F", bound=Callable[..., Any])

SCHEME = "bearer "
"""How a key is announced; other schemes may be for a proxy in front."""

SESSION_USER = "user"
SESSION_VERSION = "version"
ANYBODY = Principal("anonymous", Role.ADMIN)
READ_ONLY = "This web process only shows (DTQ_READ_ONLY): act by another one, or by the command line."


def register(flask: Flask) -> None:
    """Lock an app that nobody may use: it answers only whether it lives."""
    if flask.extensions["dtq"].identity.locked:
        flask.before_request(_refuse)


def require(*roles: Role) -> Callable[[F], F]:
    """Let only those call a view who hold one of `roles`: 401 for the unknown, 403 for the others."""

    def guard(view: F) -> F:
        @wraps(view)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            authorize(*roles)
            return view(*args, **kwargs)

        return _marked(cast(F, guarded), roles)

    return guard


def public(view: F) -> F:
    """Let anybody call a view."""
    return _marked(view, ())


def allowed_by(view: Callable[..., Any]) -> tuple[Role, ...] | None:
    """The roles of which one is needed to call a view, none if it is public; None if nobody has decided."""
    return cast("tuple[Role, ...] | None", getattr(view, "dtq_roles", None))


def authorize(*roles: Role, environ: Environ | None = None) -> Principal:
    """Who makes this request, if they hold one of `roles`. Raises a 401 or 403."""
    principal = who(environ)
    if not principal.holds(*roles):
        needed = " or ".join(roles)
        raise Problem(403, "FORBIDDEN", f"{principal.name} has the role {principal.role}, and this needs {needed}.")
    if principal.looks_only and request.method not in SAFE:
        raise Problem(403, "FORBIDDEN", READ_ONLY)
    return principal


def who(environ: Environ | None = None) -> Principal:
    """Who makes this request. Raises a 401 if they do not say, or say what is not true."""
    environ = environ or request.environ
    found: Principal | None = environ.get(PRINCIPAL)
    if found is None:
        found = environ[PRINCIPAL] = _who(environ)
        if not found.by_token and environ["REQUEST_METHOD"] not in SAFE:
            _refuse_other_sites(found)
        if web().settings.read_only:
            found = environ[PRINCIPAL] = replace(found, looks_only=True)
    return found


def _who(environ: Environ) -> Principal:
    here = web()
    given: str = environ.get("HTTP_AUTHORIZATION", "")
    if given[: len(SCHEME)].lower() == SCHEME:
        return _by_key(here, given[len(SCHEME) :].strip())
    principal = _by_proxy(here) or _by_session(here)
    identity = here.identity
    if principal is None and (identity.anybody or (identity.anybody_here and is_from_here())):
        return ANYBODY
    if principal is None and identity.anybody_here:
        raise Problem(503, "NOT_CONFIGURED", f"Without credentials this is only for its own machine. {UNCONFIGURED}")
    if principal is None:
        raise _unauthorized("Say who you are: send an API key as `Authorization: Bearer …`, or sign in.")
    return principal


def _by_key(here: Web, key: str) -> Principal:
    principal = here.identity.by_key(key)
    if principal is None:
        raise _unauthorized("This API key is not known: check it, and that it is sent as `Authorization: Bearer …`.")
    return principal


def _by_proxy(here: Web) -> Principal | None:
    header = here.settings.trusted_user_header
    name = request.headers.get(header) if header else None
    if name is None:
        return None
    user = here.identity.users.get(name)
    if user is None:
        raise Problem(403, "FORBIDDEN", "The proxy names a user who is not in DTQ_USERS: add them, with a role.")
    return user.principal


def _by_session(here: Web) -> Principal | None:
    if here.settings.secret_key is None:
        return None
    user = here.identity.users.get(session.get(SESSION_USER, ""))
    known = user is not None and user.version == session.get(SESSION_VERSION)
    return user.principal if user is not None and known else None


def _refuse_other_sites(principal: Principal) -> None:
    """A browser sends a session's cookie whoever made it send the request: then it must say that this site did."""
    same = is_same_site()
    if same is False or (same is None and principal is not ANYBODY):
        raise Problem(403, "CROSS_SITE", "This request came from another site: act on the pages of this one.")


def _refuse() -> None:
    if request.endpoint != "probes.health":
        raise Problem(503, "NOT_CONFIGURED", UNCONFIGURED)


def _unauthorized(detail: str) -> Problem:
    return Problem(401, "UNAUTHORIZED", detail, headers={"WWW-Authenticate": "Bearer"})


def _marked(view: F, roles: tuple[Role, ...]) -> F:
    view.dtq_roles = roles  # type: ignore[attr-defined]
    return view
