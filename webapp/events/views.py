"""The address of the event sockets, and all that is checked before one is opened."""

import re
import threading
from dataclasses import dataclass
from typing import Self, cast

from flask import Blueprint, Response, current_app, g, request
from flask.blueprints import BlueprintSetupState
from flask_sock import Sock  # type: ignore[import-untyped]
from simple_websocket import Server  # type: ignore[import-untyped]
from werkzeug.datastructures import MultiDict
from wsproto.utilities import RemoteProtocolError

from dtq_engine import EventFeed, Settings
from webapp.errors import AWAY_S, answer
from webapp.events.hub import Hub
from webapp.events.query import Query
from webapp.events.session import OPTIONS, Session, Wire
from webapp.origin import is_same_site
from webapp.problems import Problem
from webapp.rights import Role, authorize, require
from webapp.state import Web, web

SPARE_THREADS = 16
"""Threads that neither sockets nor waiters take, so that all else is served whatever they do."""

FULL_S = 10
CONNECTIONS = ("gunicorn.socket", "werkzeug.socket")

_is_key = re.compile(r"[A-Za-z0-9+/]{22}==").fullmatch

blueprint = Blueprint("events", __name__)
_sock = Sock()


@dataclass(frozen=True, slots=True)
class Sockets:
    """The event sockets of a process: what they hear from, and how many more there may be."""

    hub: Hub
    seats: threading.BoundedSemaphore

    @classmethod
    def of(cls, here: Web) -> Self:
        """Those of a web process; opens no connection."""

        def make_feed() -> EventFeed:
            return here.app.store.feed()

        return cls(Hub(make_feed, here.stopping), threading.BoundedSemaphore(most(here.settings)))


def most(settings: Settings) -> int:
    """How many sockets a process has: each takes a thread, as each request that waits for a task does."""
    threads = settings.web_threads
    return max(threads // 4, threads - threads // 4 - SPARE_THREADS)


@blueprint.record
def _set_up(state: BlueprintSetupState) -> None:
    state.app.extensions["dtq.events"] = Sockets.of(state.app.extensions["dtq"])
    state.app.config["SOCK_SERVER_OPTIONS"] = dict(OPTIONS)


def _sockets() -> Sockets:
    return cast(Sockets, current_app.extensions["dtq.events"])


@blueprint.before_request
def _check() -> None:
    """Refuse with an ordinary answer what cannot become a socket. The order is that of what it tells strangers."""
    principal = authorize(Role.VIEWER)
    # A browser opens sockets for the pages of any site, and sends our cookie along.
    if not principal.by_token and is_same_site() is False:
        raise Problem(
            403, "CROSS_SITE", "This socket was asked for by another site: open it from the pages of this one."
        )
    _check_handshake()
    g.events_query = Query.of(MultiDict(request.args))
    if not _sockets().seats.acquire(blocking=False):
        raise Problem(
            503,
            "TOO_MANY_SOCKETS",
            "As many event sockets as there may be are open: try again later, or ask for events now and then.",
            headers={"Retry-After": str(FULL_S)},
        )
    g.events_seat = True
    if not _sockets().hub.ready():
        raise Problem(503, "REDIS_UNAVAILABLE", "Redis does not answer.", headers={"Retry-After": str(AWAY_S)})
    _prepare()


@blueprint.teardown_request
def _leave(_error: BaseException | None) -> None:
    if g.pop("events_seat", False):
        _sockets().seats.release()


def _check_handshake() -> None:
    if not any(name in request.environ for name in CONNECTIONS):
        raise Problem(501, "NO_SOCKETS", "This server offers no WebSockets: run the web process under gunicorn.")
    if request.headers.get("Sec-WebSocket-Version") != "13":
        raise Problem(426, "UPGRADE_REQUIRED", "This is WebSocket version 13.", headers={"Sec-WebSocket-Version": "13"})
    if not _is_key(request.headers.get("Sec-WebSocket-Key", "")):
        raise Problem(400, "BAD_REQUEST", "Sec-WebSocket-Key must be 16 bytes in base64.")


def _prepare() -> None:
    """Put our own wire under the socket, and offer no compression: it would let 4 KB become 4 MB."""
    environ = request.environ
    environ.pop("HTTP_SEC_WEBSOCKET_EXTENSIONS", None)
    name = next(each for each in CONNECTIONS if each in environ)
    g.events_wire = environ[name] = Wire(environ[name])


@blueprint.errorhandler(RemoteProtocolError)
def _bad_handshake(error: RemoteProtocolError) -> Response:
    return answer(Problem(400, "BAD_REQUEST", f"This is no handshake of WebSocket: {error}."))


@_sock.route("/ws/events", bp=blueprint)  # type: ignore[untyped-decorator]
@require(Role.VIEWER)
def events(server: Server) -> None:
    """Events as they happen, filtered as the query says, until either side closes."""
    Session(server, g.events_wire, g.events_query, _sockets().hub, web().app.store).run()
