"""The web process of dtq: JSON API, events, metrics and pages, over the public names of `dtq_engine` alone.

    gunicorn -c gunicorn.conf.py 'webapp:create_app()'

It knows no handler and opens no connection before the first request, so that it may be made before a fork.
"""

from dataclasses import replace

from flask import Flask
from werkzeug.middleware.proxy_fix import ProxyFix

from dtq_engine import Dtq, Settings
from webapp import errors, parts, rights, sessions
from webapp.api.reading import BODY_MAX_BYTES
from webapp.bodies import Bodies
from webapp.border import Border
from webapp.state import Web
from webapp.stopping import tell

__all__ = ["create_app"]


def create_app(app: Dtq | None = None, settings: Settings | None = None) -> Flask:
    """The web process as a WSGI app; it may be mounted under a path of another one.

    Without `app` it makes a Dtq of its own, with `settings` or those of the environment. `settings` beside an `app`
    decide about the web process only. Raises ConfigurationError when the environment's settings are wrong.
    """
    if app is None:
        # Whoever calls over HTTP is told within two seconds, and sends it again with the same key.
        app = Dtq(replace(settings or Settings.from_env(), submit_patience_s=0))
    settings = settings or app.settings
    flask = Flask("webapp", static_folder=None)
    flask.json.sort_keys = False  # type: ignore[attr-defined]
    # Werkzeug would lead from // to / by a full address, and behind a proxy that it is not told of, to one without TLS.
    flask.url_map.merge_slashes = False
    flask.config["MAX_CONTENT_LENGTH"] = BODY_MAX_BYTES
    flask.extensions["dtq"] = here = Web.over(app, settings)
    tell(here.stopping)
    flask.wsgi_app = Border(flask.wsgi_app, Bodies())  # type: ignore[method-assign]
    if settings.trusted_proxies:
        many = settings.trusted_proxies
        flask.wsgi_app = ProxyFix(flask.wsgi_app, x_for=many, x_proto=many, x_host=many, x_prefix=many)  # type: ignore[method-assign]
    sessions.configure(flask, settings)
    errors.register(flask)
    rights.register(flask)
    for blueprint in parts.blueprints():
        flask.register_blueprint(blueprint)
    return flask
