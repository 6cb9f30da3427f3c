"""Pages out of templates: the whole for a person, its live part for a script that asks again."""

from typing import Any, cast

from flask import Response, current_app, request, url_for
from flask.blueprints import BlueprintSetupState
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from webapp.events.messages import EVENTS
from webapp.pages import text
from webapp.pages.assets import asset, place
from webapp.pages.notices import notice
from webapp.readers import sees_payloads
from webapp.rights import who
from webapp.roles import Role
from webapp.state import web


def set_up(state: BlueprintSetupState) -> None:
    """Give an app the environment of our templates, apart from any that a host application has."""
    environment = Environment(
        loader=FileSystemLoader(place("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ours: dict[str, Any] = {"url_for": url_for, "asset": asset, "Role": Role, "every_event": ",".join(sorted(EVENTS))}
    environment.globals.update(ours)
    filters = (text.blocked, text.change, text.cut, text.number, text.size, text.span)
    environment.filters |= {each.__name__: each for each in filters}
    state.app.extensions["dtq.templates"] = environment


def page(template: str, *, live: str | None = None, status: int = 200, **context: Any) -> Response:
    """A page; `live` names the template of the part that changes, which is all that a script gets."""
    is_part = live is not None and "HX-Request" in request.headers
    shared = {
        "me": who(),
        "sees_payloads": sees_payloads(),
        "moments": text.Moments(web().app.store.now_ms()),
        "here": request.script_root + request.full_path.rstrip("?"),
        "notice": None if is_part else notice(request.args),
    }
    body = _render(live if is_part and live else template, **shared, **context)
    return Response(body, status, {"Vary": "HX-Request"}, content_type="text/html; charset=utf-8")


def plain_page(template: str, status: int = 200, **context: Any) -> Response:
    """A page that needs neither Redis nor anybody who is known."""
    return Response(_render(template, **context), status, content_type="text/html; charset=utf-8")


def _render(template: str, **context: Any) -> str:
    environment = cast(Environment, current_app.extensions["dtq.templates"])
    return environment.get_template(template).render(context)


def _finalize(value: object) -> object:
    """What is written into a page from outside has nothing in it that cannot be seen."""
    if value is None:
        return ""
    return text.clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
