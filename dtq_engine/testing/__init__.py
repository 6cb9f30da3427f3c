"""Testing the tasks of an app: in memory, in one thread, with time that a test moves.

With pytest it comes as the fixture `dtq`; elsewhere, `with Kit(app) as dtq:` does the same. Needs the extra
`dtq[testing]`.
"""

from dtq_engine.testing.errors import HandlerFailed, KitMisused, RunawayTasks
from dtq_engine.testing.kit import Kit
from dtq_engine.testing.run import Ran
from dtq_engine.testing.submitted import Submitted

__all__ = ["HandlerFailed", "Kit", "KitMisused", "Ran", "RunawayTasks", "Submitted"]
