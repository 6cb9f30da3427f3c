"""Pages of lists: opaque cursors, and a link to the next page."""

from typing import Any

from flask import request, url_for
from werkzeug.urls import iri_to_uri

from dtq_engine.cursors import packed, unpacked

shown = packed
"""A cursor as it is answered."""

given = unpacked
"""The store's cursor of one that was answered."""


def link(cursor: str | None) -> dict[str, str]:
    """The header that leads to the next page, under the same filters; `cursor` as it is answered."""
    if cursor is None or request.endpoint is None:
        return {}
    values: dict[str, Any] = request.args.to_dict() | (request.view_args or {}) | {"cursor": cursor}
    # Where this app is mounted may be named in any letters, which no header can hold.
    return {"Link": f'<{iri_to_uri(url_for(request.endpoint, **values))}>; rel="next"'}
