"""A worker process: settings from the environment, sentences instead of tracebacks, and an exit that nothing delays."""

import os
import sys
from collections.abc import Callable
from typing import NoReturn

from dtq_engine.config import Settings
from dtq_engine.engine import Dtq, load_app
from dtq_engine.errors import ConfigurationError, DtqError
from dtq_engine.worker import logs
from dtq_engine.worker.signals import EXIT_INTERRUPTED
from dtq_engine.worker.worker import Worker

EXIT_MISCONFIGURED = 2


def main() -> NoReturn:
    """Run a worker from the environment alone, and exit with its code; 2 when it cannot be set up."""
    _exit_with(_run_from_environment)


def serve(app: Dtq, settings: Settings) -> NoReturn:
    """Run a worker in this process, and exit with its code; 2 when it cannot be set up."""
    _exit_with(lambda: _run(app, settings))


def _run_from_environment() -> int:
    settings = Settings.from_env()
    if settings.tasks is None:
        raise ConfigurationError(["DTQ_TASKS is not set: name the app whose tasks to run, such as shop.tasks:app."])
    return _run(load_app(settings.tasks), settings)


def _run(app: Dtq, settings: Settings) -> int:
    logs.configure(settings)
    return Worker(app, settings).run()


def _exit_with(work: Callable[[], int]) -> NoReturn:
    try:
        code = work()
    except ConfigurationError as error:
        print(*error.problems, sep="\n", file=sys.stderr)  # noqa: T201 - logging is not set up yet
        code = EXIT_MISCONFIGURED
    except DtqError as error:
        print(error, file=sys.stderr)  # noqa: T201
        code = EXIT_MISCONFIGURED
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a handler that still sleeps in a thread of its own would keep the process alive.
    os._exit(code)
