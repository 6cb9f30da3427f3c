"""The page on which people sign in."""

from flask import Blueprint, Response

from webapp.pages.problems import login_page
from webapp.rights import public

blueprint = Blueprint("login", __name__)


@blueprint.get("/login")
@public
def form() -> Response:
    """Name and password."""
    return login_page()
