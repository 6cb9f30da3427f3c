"""The data-access layer: every conversation with Redis about tasks, queues and workers.

Each part translates model objects into one script call (or a few reads) and the reply back into model objects;
replies are seen nowhere else. `Store` puts the parts together and adds nothing.
"""

from collections.abc import Mapping

from dtq_engine.config import Settings
from dtq_engine.connection import Connection
from dtq_engine.keys import Keys
from dtq_engine.store.agenda import Agenda
from dtq_engine.store.base import Base
from dtq_engine.store.control import Control
from dtq_engine.store.crew import Crew
from dtq_engine.store.drain import Drains
from dtq_engine.store.events import Events
from dtq_engine.store.feed import EventFeed, EventReplay
from dtq_engine.store.health import Health
from dtq_engine.store.history import History
from dtq_engine.store.inspect import Inspect
from dtq_engine.store.intake import Intake
from dtq_engine.store.leases import Leases
from dtq_engine.store.limits import Limits
from dtq_engine.store.logins import Logins
from dtq_engine.store.outbox import Outbox
from dtq_engine.store.pauses import Pauses
from dtq_engine.store.periodic import Periodic
from dtq_engine.store.rejections import Rejections
from dtq_engine.store.reports import Reports, Steps
from dtq_engine.store.schedule import Schedule
from dtq_engine.store.schemas import Schemas
from dtq_engine.store.search import Search
from dtq_engine.store.stats import Stats
from dtq_engine.store.sweep import Sweep
from dtq_engine.store.trees import Trees
from dtq_engine.store.workers import Workers

__all__ = ["Store"]


class Store:
    """All parts over one connection. Cheap to make, thread-safe, opens nothing by itself."""

    def __init__(self, connection: Connection, settings: Settings) -> None:
        self.connection = connection
        self.keys = Keys(settings.prefix, connection.database)
        base = Base(connection, self.keys, settings)
        self.workers = Workers(base)
        self.crew = Crew(base)
        self.schemas = Schemas(base, self.workers)
        self.intake = Intake(base, self.workers)
        self.leases = Leases(base, self.workers)
        self.schedule = Schedule(base)
        self.outbox = Outbox(base)
        self.inspect = Inspect(base)
        self.trees = Trees(base, self.inspect)
        self.search = Search(base, self.inspect)
        self.control = Control(base, self.inspect)
        self.periodic = Periodic(base, self.inspect)
        self.agenda = Agenda(base, self.workers)
        self.limits = Limits(base, self.inspect)
        self.events = Events(base)
        self.stats = Stats(base)
        self.history = History(base)
        self.pauses = Pauses(base)
        self.drains = Drains(base)
        self.rejections = Rejections(base)
        self.reports = Reports(base, self.inspect)
        self.steps = Steps(base)
        self.logins = Logins(base)
        self.sweep = Sweep(base)
        self.health = Health(base)
        self._base = base

    def feed(self) -> EventFeed:
        """What happens from now on, in all queues."""
        return EventFeed(self.connection, self.keys, self.events, self.inspect.queues)

    def replay(self, positions: Mapping[str, int]) -> EventReplay:
        """What the logs of these queues have after the event that each names."""
        return EventReplay(self.events, positions)

    def now_ms(self) -> int:
        """Redis' clock."""
        return self._base.now_ms()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
