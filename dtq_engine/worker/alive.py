"""The alive file, by which others see whether a worker makes progress."""

import logging
from pathlib import Path

from dtq_engine.config import Settings
from dtq_engine.errors import ConfigurationError

log = logging.getLogger("dtq.worker")


class AliveFile:
    """The file that the settings name, if they name one."""

    def __init__(self, settings: Settings) -> None:
        self._path = None if settings.alive_file is None else Path(settings.alive_file)

    def check(self) -> None:
        """Touch it. Raises ConfigurationError if it cannot be written."""
        try:
            self._touch()
        except OSError as error:
            message = f"DTQ_ALIVE_FILE cannot be written ({error}): name one in a directory that it may write to."
            raise ConfigurationError([message]) from None

    def touch(self) -> None:
        """Show that there is progress; an error is logged."""
        try:
            self._touch()
        except OSError as error:
            log.error("the alive file cannot be touched: %s", error)

    def _touch(self) -> None:
        if self._path is not None:
            self._path.touch()
