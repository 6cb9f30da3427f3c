"""A task's links to its parents and children, to and from Redis. `lua/_links.lua` says how they are kept."""

from collections.abc import Sequence

from dtq_engine.model import Input, NewTask, Takes, TaskStatus
from dtq_engine.store.states import status_of


def encode_links(task: NewTask) -> tuple[str, ...]:
    """Its links, as `lua/_links.lua` reads them; most tasks have none."""
    if not (task.after or task.children or task.in_flow):
        return ()
    parents = [(each.queue, each.id, "cr"[each.run_anyway], "lf"[each.comes_along]) for each in task.after]
    children = [word for child in task.children for word in child]
    named = {
        "+after": " ".join(word for parent in parents for word in parent),
        "+takes": task.takes.value[0] if task.after else "",
        "+children": " ".join(children),
        "+flow": "1" if task.in_flow else "",
    }
    return tuple(word for name, value in named.items() if value for word in (name, value))


def decode_inputs(words: bytes | Sequence[bytes]) -> tuple[Takes, tuple[Input, ...]]:
    """What `links.inputs` gives, in the order of the parents; what is unreadable is left out."""
    if isinstance(words, bytes):
        return Takes.NOTHING, ()
    takes = next((each for each in Takes if each.value[:1].encode() == words[0]), Takes.NOTHING)
    found = [decode_place(*pair) for pair in zip(words[1::2], words[2::2], strict=False)]
    return takes, tuple(each for _, each in sorted((each for each in found if each), key=lambda each: each[0]))


def decode_place(ref: bytes, value: bytes) -> tuple[int, Input] | None:
    """One field of a task's `awaits`: the parent's position, and what became of it; None for what is unreadable."""
    try:
        head, has_result, result = value.partition(b"\n")
        position, _, _, state, reason = head.split(b" ")
        queue, task_id = ref.decode("utf-8", "replace").split(" ")
        return int(position), Input(
            task_id,
            queue,
            TaskStatus.SUCCEEDED if state == b"G" else status_of(state),
            result if has_result else None,
            None if reason == b"-" else reason.decode("utf-8", "replace"),
        )
    except ValueError:
        return None
