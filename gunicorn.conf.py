"""How gunicorn runs the web process: `gunicorn -c gunicorn.conf.py --no-control-socket 'webapp:create_app()'`.

It listens on $PORT, as gunicorn does by itself. Threads, because an open socket and a waiting request hold one each
and do nothing with it. What gunicorn's command line says wins.
"""

import gc
from typing import Any

from dtq_engine import Settings
from dtq_engine.logs import configure
from webapp.stopping import announce

_settings = Settings.from_env()

worker_class = "webapp.serving.WebWorker"
workers = _settings.web_processes
threads = _settings.web_threads
timeout = 60
graceful_timeout = 10
keepalive = 95
# A request line holds a cursor, which can be long.
limit_request_line = 8190


def on_starting(server: Any) -> None:
    """Log as the settings say, gunicorn's own lines too."""
    configure(_settings)
    server.log.error_log.handlers.clear()
    server.log.error_log.propagate = True


def post_worker_init(_worker: Any) -> None:
    """Tell those who wait and stream as soon as the process is to end: they would outlast the grace."""
    announce()


def worker_exit(_server: Any, _worker: Any) -> None:
    """Let all that is in memory end with the process: Python would look for half a second at what refers to what."""
    gc.freeze()


def on_exit(_server: Any) -> None:
    """The same, for the process that looks after the others."""
    gc.freeze()
