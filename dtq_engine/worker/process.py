"""A worker process: settings from the environment, sentences instead of tracebacks, and an exit that nothing delays."""

import gc
import sys
from collections.abc import Callable
from typing import NoReturn

from dtq_engine import logs
from dtq_engine.config import Settings
from dtq_engine.engine import Dtq, load_app
from dtq_engine.errors import ConfigurationError, DtqError, HookFailed
from dtq_engine.stdio import leave, open_what_is_closed
from dtq_engine.worker.signals import EXIT_INTERRUPTED
from dtq_engine.worker.worker import Worker

EXIT_HOOK_FAILED = 1
EXIT_MISCONFIGURED = 2


def main() -> NoReturn:
    """Run a worker from the environment alone, and exit with its code; 2 when it cannot be set up.

    With `worker_processes` above 1 it is a supervisor of so many.
    """
    run_to_exit(_run_from_environment)


def serve(app: Dtq, settings: Settings) -> NoReturn:
    """Run a worker in this process, and exit with its code; 2 when it cannot be set up."""
    run_to_exit(lambda: _run(app, settings))


def _run_from_environment() -> int:
    settings = Settings.from_env()
    if settings.tasks is None:
        raise ConfigurationError(["DTQ_TASKS is not set: name the app whose tasks to run, such as shop.tasks:app."])
    if settings.worker_processes > 1:
        return supervise(settings)
    return _run(load_app(settings.tasks), settings)


def supervise(settings: Settings, *, for_app: bool = False) -> int:
    """Run several workers from this process, which needs no app, until told to stop; the exit code.

    With `for_app` the apps that they import take the settings over. Raises ConfigurationError.
    """
    from dtq_engine.worker.supervisor import Supervisor  # a single worker needs none

    logs.configure(settings)
    return Supervisor(settings, for_app=for_app).run()


def _run(app: Dtq, settings: Settings) -> int:
    logs.configure(settings)
    settle_in()
    return Worker(app, settings).run()


def settle_in() -> None:
    """Keep what was imported until the end: Python need not look again and again at what refers to what in it.

    For a process that is a worker and nothing else. Of the time that a task takes here, a sixth went into that.
    """
    gc.collect()
    gc.freeze()


def run_to_exit(work: Callable[[], int]) -> NoReturn:
    """Do this, and exit with the code that it returns; 2, after a sentence on stderr, if it raises a DtqError.

    1 for HookFailed: what the hook of the app needs may be there when a supervisor tries again.
    """
    open_what_is_closed()
    try:
        code = work()
    except ConfigurationError as error:
        print(*error.problems, sep="\n", file=sys.stderr)  # noqa: T201 - logging is not set up yet
        code = EXIT_MISCONFIGURED
    except DtqError as error:
        print(error, file=sys.stderr)  # noqa: T201
        code = EXIT_HOOK_FAILED if isinstance(error, HookFailed) else EXIT_MISCONFIGURED
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    leave(code)
