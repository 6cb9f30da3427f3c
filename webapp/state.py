"""What the parts of one web process share."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

from flask import current_app

from dtq_engine import Dtq, Settings
from webapp.catalog import Catalog
from webapp.identity import Identity
from webapp.passwords import Passwords
from webapp.waiting import Seats


@dataclass(frozen=True, slots=True)
class Web:
    """One web process: the app whose tasks it shows, its settings, who may use it, the places of those who wait.

    `stopping` is set when the process is to end: whatever waits or streams comes to its end then.
    """

    app: Dtq
    settings: Settings
    identity: Identity
    passwords: Passwords
    seats: Seats
    catalog: Catalog
    stopping: threading.Event
    defaults: Mapping[str, Any]
    """What the settings decide for tasks, by the names that types publish their own decisions under."""

    @classmethod
    def over(cls, app: Dtq, settings: Settings) -> Self:
        """The web process of an app; opens no connection."""
        identity = Identity.of(settings)
        return cls(
            app=app,
            settings=settings,
            identity=identity,
            passwords=Passwords(identity, app),
            seats=Seats(max(1, settings.web_threads // 4)),
            catalog=Catalog(app),
            stopping=threading.Event(),
            defaults=_defaults(settings),
        )


def web() -> Web:
    """The web process that the current request belongs to."""
    return cast(Web, current_app.extensions["dtq"])


def _defaults(settings: Settings) -> Mapping[str, Any]:
    return {
        "queue": "default",
        "priority": 5,
        "expires_in_ms": None,
        "timeout_ms": round(settings.task_timeout_s * 1000),
        "max_attempts": settings.max_attempts,
        "retry_base_delay_ms": round(settings.retry_base_delay_s * 1000),
        "retry_max_delay_ms": round(settings.retry_max_delay_s * 1000),
        "retry_jitter": settings.retry_jitter,
        "keep_result": True,
        "restartable": False,
    }
