"""The numbers of the whole fleet, for Prometheus, and counting what only the web process knows: refused tasks."""

import gzip
from collections import Counter
from collections.abc import Iterable

import msgspec
from flask import Blueprint, Response, request

from dtq_engine.metrics import FleetCollector, exposition
from webapp.rights import Role, require
from webapp.state import web

UNCOUNTED = frozenset({"UNAUTHORIZED", "FORBIDDEN", "CROSS_SITE", "NOT_CONFIGURED", "SUBMIT_UNCERTAIN"})
"""What strangers can make happen as often as they like, and what may be no refusal."""

blueprint = Blueprint("metrics", __name__)


class _Refusal(msgspec.Struct):
    code: str


_refusal = msgspec.json.Decoder(_Refusal)


@blueprint.get("/metrics")
@require(Role.METRICS)
def metrics() -> Response:
    """All metrics, as read from Redis at this moment; every web process gives the same."""
    body, content_type = exposition(FleetCollector(web().app.store), request.headers.get("Accept", ""))
    headers = {"Vary": "Accept, Accept-Encoding"}
    if request.accept_encodings["gzip"]:
        # Its lines are much alike: a twentieth is left of them.
        body, headers["Content-Encoding"] = gzip.compress(body, 3), "gzip"
    return Response(body, content_type=content_type, headers=headers)


def count_refusal(response: Response) -> Response:
    """Count a submission that was refused as a whole, by the code of the problem that answers it.

    Not what failed for want of Redis, which cannot count it: the answer would have to wait for it once more.
    """
    if 400 <= response.status_code < 500:
        count_refusals([_refusal.decode(response.data).code])
    return response


def count_refusals(codes: Iterable[str]) -> None:
    """Count tasks that were refused, by the codes of their problems."""
    rejections = web().app.store.rejections
    for code, number in Counter(codes).items():
        if code not in UNCOUNTED:
            rejections.count(code.lower(), number)
