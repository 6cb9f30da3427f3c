"""Style, scripts and templates: where they are, and how browsers get them."""

import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from flask import Blueprint, Response, abort, current_app, request, url_for
from flask.blueprints import BlueprintSetupState

from webapp.rights import public

blueprint = Blueprint("assets", __name__)

FOR_EVER = "public, max-age=31536000, immutable"
KINDS = frozenset({".css", ".js", ".svg", ".txt"})
_PACKAGE = Path(__file__).resolve().parents[1]


def place(name: str) -> Path:
    """A directory of ours: within the package in an installation, beside it in the source tree."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent; `version` changes with what is in it."""

    body: bytes
    content_type: str
    version: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """The file at a path."""
        body = path.read_bytes()
        kind = mimetypes.guess_type(path.name)[0] or "text/plain"
        return cls(body, f"{kind}; charset=utf-8", hashlib.sha256(body).hexdigest()[:12])


@blueprint.record
def _read(state: BlueprintSetupState) -> None:
    root = place("static")
    found = (path for path in root.rglob("*") if path.suffix in KINDS)
    state.app.extensions["dtq.assets"] = {path.relative_to(root).as_posix(): Asset.read(path) for path in found}


def _assets() -> Mapping[str, Asset]:
    return cast("Mapping[str, Asset]", current_app.extensions["dtq.assets"])


def asset(name: str) -> str:
    """The address of a file; it changes with what is in it, so that browsers may keep it for ever."""
    return url_for("pages.assets.file", name=name, v=_assets()[name].version)


@blueprint.get("/static/<path:name>")
@public
def file(name: str) -> Response:
    """One of the files, all of which are known by name."""
    found = _assets().get(name)
    if found is None:
        abort(404)
    is_this = request.args.get("v") == found.version
    headers = {"Cache-Control": FOR_EVER if is_this else "no-cache"}
    return Response(found.body, content_type=found.content_type, headers=headers)
