"""What operators say of what they do, checked before it is sent: it is kept in the audit log, and shown there."""

from dtq_engine import validate
from dtq_engine.errors import InvalidTask
from dtq_engine.ids import new_token

ACTOR_MAX = 500
REASON_MAX = 2000
REQUEST_MAX = 500


def asked(request: object, actor: object, reason: object) -> tuple[str, str, str]:
    """Request id (a new one for None or ''), actor and reason; InvalidTask names what is no text, or too long."""
    found = new_token() if request is None or request == "" else text("request", request, REQUEST_MAX)
    return found, text("actor", actor, ACTOR_MAX), text("reason", reason, REASON_MAX)


def place(task_id: object, queue: object) -> tuple[str, str | None]:
    """A task's id, and its queue unless that is None; InvalidTask for what can be neither."""
    return text("id", task_id, REQUEST_MAX), None if queue is None else validate.check_queue(queue)


def text(field: str, value: object, most: int) -> str:
    """`value`, or InvalidTask unless it is text of at most `most` characters that UTF-8 can write."""
    if not isinstance(value, str):
        raise InvalidTask(field, f"{field} cannot be something of type {type(value).__name__}: give text.")
    if len(value) > most:
        raise InvalidTask(field, f"{field} has {len(value):,} characters, and {most:,} are allowed: shorten it.")
    try:
        value.encode()
    except UnicodeEncodeError:
        message = f"{field} has half a character (a lone surrogate): give text that UTF-8 can write."
        raise InvalidTask(field, message) from None
    return value
