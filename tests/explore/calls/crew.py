"""Workers that serve the queue: each tells of itself, and a leader of those that fell silent."""

from dataclasses import dataclass

from dtq_engine.store.crew import Absence
from tests.explore.calls.base import Place, Seen
from tests.explore.promises import Promises, expect


@dataclass(frozen=True)
class Started:
    """A worker says that it serves the queue."""

    worker: str
    life: str

    def run(self, place: Place) -> bool:
        return place.crew.started(place.queue, self.worker, self.life)

    def learn(self, promises: Promises, answer: bool, seen: Seen) -> None:
        is_news = promises.crew.get(self.worker) != self.life
        expect(answer == is_news, "a worker's start is told once", self, answer)
        promises.crew[self.worker] = self.life
        promises.events["WORKER_STARTED"] += is_news


@dataclass(frozen=True)
class Gone:
    """A worker says that it stops, or a leader that it fell silent."""

    worker: str
    life: str
    is_stale: bool

    def run(self, place: Place) -> bool:
        if self.is_stale:
            return place.crew.stale(Absence(place.queue, self.worker.encode(), self.life.encode()))
        return place.crew.stopped(place.queue, self.worker, self.life)

    def learn(self, promises: Promises, answer: bool, seen: Seen) -> None:
        is_news = promises.crew.get(self.worker) == self.life
        expect(answer == is_news, "a worker's end is told once, of the life that ended", self, answer)
        if is_news:
            del promises.crew[self.worker]
            promises.events["WORKER_STALE" if self.is_stale else "WORKER_STOPPED"] += 1
