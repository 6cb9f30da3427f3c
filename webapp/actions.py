"""Who acts on what, for the audit log."""

import secrets
from typing import TypedDict

from flask import request

from webapp.answers import about, request_id
from webapp.rights import who


class Doer(TypedDict):
    """What the store's verbs want to know of whoever acts."""

    actor: str
    reason: str
    request: str


def doer(reason: str) -> Doer:
    """Who makes this request, and why. The audit log's `request` begins with the request's id.

    What follows makes it unique: a repeated id, which callers choose, must not be taken for a repeated call.
    """
    given = request.view_args or {}
    about(verb=request.endpoint or "", **{name: given[name] for name in ("task_id", "queue") if name in given})
    return {"actor": who().name, "reason": reason, "request": f"{request_id()}:{secrets.token_hex(6)}"}
