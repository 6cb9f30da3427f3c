"""Where other processes find an app: they import its module, and are never sent its functions."""

import sys
from collections.abc import Iterator

from dtq_engine.config import Settings
from dtq_engine.engine import Dtq
from dtq_engine.errors import ConfigurationError
from dtq_engine.registry import Handler
from dtq_engine.signature import underlying
from dtq_engine.worker.messages import Welcome
from dtq_engine.worker.spawn import import_path


def check(app: Dtq, settings: Settings) -> None:
    """Raise ConfigurationError if the app has tasks that run in processes, and a process could not find it."""
    modules = _modules(app)
    if "__main__" in modules:
        problem = (
            "The script that was started has tasks that run in processes of their own, which cannot import it: "
            "move them into a module, or start a worker by `dtq worker --app MODULE:APP`."
        )
        raise ConfigurationError([problem])
    if modules and _path(app, settings) is None:
        problem = (
            "No module has this app as an attribute, so that processes for its tasks cannot find it: set tasks "
            "(DTQ_TASKS) to where it is, such as shop.tasks:app."
        )
        raise ConfigurationError([problem])


def welcome(app: Dtq, settings: Settings) -> Welcome:
    """What a process needs to know to run handlers of the app."""
    path = _path(app, settings)
    assert path is not None
    return Welcome(
        path=import_path(),
        settings=settings,
        app=path,
        modules=[] if settings.tasks else sorted(_modules(app)),
        app_settings=app.settings,
    )


def _path(app: Dtq, settings: Settings) -> str | None:
    """`module:attribute`: where the worker found it, else where a module with handlers has it."""
    if settings.tasks is not None:
        return settings.tasks
    for module in sorted(_modules(app)):
        for name, value in vars(sys.modules[module]).items():
            if value is app:
                return f"{module}:{name}"
    return None


def _modules(app: Dtq) -> set[str]:
    """The modules of the handlers that want a process."""
    return {underlying(handler.fn).__module__ for handler in _isolated(app)}


def _isolated(app: Dtq) -> Iterator[Handler]:
    for name in app.registry.types():
        handler = app.registry.get(name)
        if handler is not None and handler.isolation is not None:
            yield handler
