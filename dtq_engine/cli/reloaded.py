"""The process that `--reload` ends and starts anew: `python -m dtq_engine.cli.reloaded FD`, the plan on its first line.

It tells through FD which folders to watch, as soon as the app has been imported or could not be. When the process
that started it is gone, which the end of its input shows, it drains and ends.
"""

import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from dtq_engine.cli.plan import Imported, Plan
from dtq_engine.engine import Dtq, load_app
from dtq_engine.errors import ConfigurationError, DtqError
from dtq_engine.logs import configure as log_as
from dtq_engine.shapes import sentence
from dtq_engine.stdio import leave
from dtq_engine.worker.process import EXIT_MISCONFIGURED
from dtq_engine.worker.signals import EXIT_INTERRUPTED

log = logging.getLogger("dtq.reload")


def main() -> None:
    """Carry out the plan, and exit with the worker's code; 2 when it cannot be begun."""
    try:
        code = _run(int(sys.argv[1]))
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except DtqError as error:
        log.error("%s", sentence(error))
        code = EXIT_MISCONFIGURED
    leave(code)


def _run(report: int) -> int:
    os.set_inheritable(report, False)
    plan = msgspec.json.decode(_own_input(), type=Plan)
    log_as(plan.settings)
    app = _load(plan.settings.tasks or "", report)
    return plan.run(app)


def _own_input() -> bytes:
    """The first line of standard input, the rest of which is watched for its end; others get an empty one instead."""
    ours = os.fdopen(os.dup(0), "rb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    line = ours.readline()

    def drain_at_end() -> None:
        ours.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=drain_at_end, name="dtq-leash", daemon=True).start()
    return line


def _load(path: str, report: int) -> Dtq:
    """The app; what was read on the way is reported whether or not it could be loaded. Raises ConfigurationError."""
    before = frozenset(sys.modules)
    try:
        app = load_app(path)
    except ConfigurationError as error:
        # What could not be imported may be in a module that is not known yet: a file may have to be added.
        places = {Path.cwd(), *_folders(_files_of(error)), *_folders(_files_of_modules(before))}
        _tell(report, Imported(worked=False, folders=sorted(map(str, places)), misnamed=_is_misnamed(path, error)))
        raise
    places = set(_folders(_files_of_modules(before))) or {Path.cwd()}
    _tell(report, Imported(worked=True, folders=sorted(map(str, places))))
    return app


def _is_misnamed(path: str, error: ConfigurationError) -> bool:
    """Whether what is wrong is the name that was given, and not what is in a module, which may be being edited."""
    cause = error.__cause__
    if cause is None:  # the module was imported, and has no such app
        return True
    module = path.partition(":")[0]
    return isinstance(cause, ModuleNotFoundError) and f"{module}.".startswith(f"{cause.name}.")


def _tell(report: int, imported: Imported) -> None:
    with os.fdopen(report, "wb") as file:
        file.write(msgspec.json.encode(imported))


def _files_of_modules(before: Collection[str]) -> Iterator[str]:
    """Where the modules were read from that were imported since."""
    for name, module in list(sys.modules.items()):
        if name not in before and (file := getattr(module, "__file__", None)):
            yield file


def _files_of(error: BaseException | None) -> Iterator[str]:
    """The files that an error, and what caused it, came from."""
    while error is not None:
        yield from (frame.filename for frame in traceback.extract_tb(error.__traceback__))
        if isinstance(error, SyntaxError) and error.filename:
            yield error.filename
        error = error.__cause__ or error.__context__


def _folders(files: Iterator[str]) -> Iterator[Path]:
    """The folders of those files that are someone's own: under the working directory, and not installed there."""
    root = Path.cwd()
    installed = [Path(place).resolve() for place in (sys.prefix, sys.base_prefix)]
    for file in files:
        path = Path(file).resolve()
        is_own = path.is_relative_to(root) and path.is_file() and "site-packages" not in path.parts
        if is_own and not any(path.is_relative_to(place) for place in installed):
            yield path.parent


if __name__ == "__main__":
    main()
