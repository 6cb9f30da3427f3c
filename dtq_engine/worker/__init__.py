"""The worker: claims tasks, runs their handlers, and settles what became of them."""

from dtq_engine.worker.process import serve
from dtq_engine.worker.worker import Worker

__all__ = ["Worker", "serve"]
