"""The demonstration's handlers, but for one that does not behave as it is meant to."""

from dtq_engine import Dtq
from dtq_engine.registry import Handler
from examples import tasks

app = Dtq()


def never_fails() -> str:
    """Succeed on the first attempt already."""
    return "at once"


for name in tasks.app.registry.types():
    handler = tasks.app.registry.get(name)
    assert handler is not None
    app.registry.add(Handler(name, never_fails, defaults=handler.defaults) if name == "demo.flaky" else handler)
