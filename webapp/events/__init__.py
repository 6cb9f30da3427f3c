"""`/ws/events`: what happens, as it happens."""

from webapp.events.views import blueprint

__all__ = ["blueprint"]
