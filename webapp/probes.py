"""Whether the process lives, and whether it can serve."""

import logging

from flask import Blueprint, Response

from dtq_engine import RedisUnavailable
from webapp.answers import reply
from webapp.problems import Problem
from webapp.rights import public
from webapp.state import web

_log = logging.getLogger("dtq.web")

blueprint = Blueprint("probes", __name__)


@blueprint.get("/health")
@public
def health() -> Response:
    """The process answers; nothing else is touched."""
    return reply({"status": "ok"})


@blueprint.get("/ready")
@public
def ready() -> Response:
    """Whether tasks can be accepted: 503 with the reason when not."""
    try:
        web().app.connection.ping()
    except RedisUnavailable as error:
        # Anybody may ask: where Redis is and what it said is for the log.
        _log.warning("not ready: %s", error)
        raise Problem(503, "REDIS_UNAVAILABLE", "Redis does not answer.", headers={"Retry-After": "2"}) from None
    return reply({"status": "ok"})
