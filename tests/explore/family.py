"""Tasks that wait for others: what the ends of their parents make of them, as Redis holds those after a call.

Of parents in another queue a task hears by messages, which come late, again, and in any order. What it makes of them
must fit an end that the parent had at some time, and once no message is under way, what the parent is now.
"""

from dtq_engine.model import FINAL, Parent, Takes, TaskStatus
from tests.explore.promises import Known, Promises, expect
from tests.explore.snapshot import Snapshot

FAILED = FINAL - {TaskStatus.SUCCEEDED}


def fates(promises: Promises, known: Known, after: Snapshot | None = None) -> dict[str, TaskStatus]:
    """What became of each parent; of one that is gone, how it had ended, as cancelled if damage took it."""
    found = dict[str, TaskStatus]()
    for parent in known.task.after:
        kin = known.kin[parent.id]
        is_current = after is not None and promises.tasks.get(parent.id) is kin
        status = after.status(parent.id) if after is not None and is_current else kin.status
        found[parent.id] = status or kin.outcome or TaskStatus.CANCELLED
        if parent.id in known.gone:
            found[parent.id] = TaskStatus.CANCELLED
    return found


def is_apart(promises: Promises, parent: Parent) -> bool:
    """Whether a parent is in another queue."""
    return parent.queue != promises.queue


def heard(promises: Promises, known: Known, parent: Parent, fate: TaskStatus) -> set[TaskStatus]:
    """What a task may have heard of a parent that is like this now."""
    kin = known.kin[parent.id]
    if not is_apart(promises, parent):
        return {fate}
    return {fate} | kin.had | ({TaskStatus.CANCELLED} if kin.status is None else set())


def is_unsure(promises: Promises, known: Known) -> bool:
    """Whether news of a parent may be under way, or a parent never came, or was gone before it could tell."""
    apart = [known.kin[parent.id] for parent in known.task.after if is_apart(promises, parent)]
    under_way = promises.outbox or (promises.beside is not None and promises.beside.outbox)
    may_miss = bool(apart) and bool(under_way or any(kin.status is None for kin in apart))
    return may_miss or has_lost_parents(known)


def dooms(known: Known, parent: Parent, fate: TaskStatus) -> bool:
    """Whether a task must not run because of this parent."""
    knows = fate is TaskStatus.SUCCEEDED and parent.id not in known.unheard
    is_cut = knows and known.kin[parent.id].is_cut and known.task.takes is not Takes.NOTHING
    return not parent.run_anyway and (fate in FAILED or is_cut)


def is_doomed(known: Known, found: dict[str, TaskStatus]) -> bool:
    """Whether a task must not run because of one of its parents."""
    return any(dooms(known, parent, found[parent.id]) for parent in known.task.after)


def has_lost_parents(known: Known) -> bool:
    """Whether a parent never came, or damage took it before it ended: then nobody knows whether it was heard of."""
    return any(kin.status is None and kin.outcome is None for kin in known.kin.values())


def waits_in_vain(promises: Promises) -> bool:
    """Whether some task, in whichever queue, waits for one that never came or that damage took: a sweep asks for it."""
    queues = [promises] if promises.beside is None else [promises, promises.beside]
    tasks = [known for queue in queues for known in queue.tasks.values() if known.awaits]
    return bool(tasks) and (any(queue.is_damaged for queue in queues) or any(map(has_lost_parents, tasks)))


def may_be_through(known: Known) -> bool:
    """Whether a task has run with a parent's failure, and waits no more though that parent lives again."""
    return any(parent.run_anyway and known.kin[parent.id].lives for parent in known.task.after)


def waits_again(promises: Promises, known: Known) -> bool:
    """Whether a task that is requeued has yet to hear of a parent."""
    return any(fate not in FINAL for fate in fates(promises, known).values())


def follow_parents(promises: Promises, after: Snapshot) -> None:
    """Allow what the parents of each task justify; note what came of it."""
    for task_id, known in promises.tasks.items():
        if not known.task.after or known.status is None:
            continue
        found = fates(promises, known, after)
        may_be = {parent: heard(promises, known, parent, found[parent.id]) for parent in known.task.after}
        known.doomed |= {each.id for each, fates in may_be.items() if any(dooms(known, each, fate) for fate in fates)}
        if known.awaits:
            _allow_end_of_waiting(promises, known, may_be)
        elif known.status is TaskStatus.CANCELLED and known.is_victim and task_id not in promises.allowed:
            _follow_back(promises, known, after, found)


def _allow_end_of_waiting(promises: Promises, known: Known, may_be: dict[Parent, set[TaskStatus]]) -> None:
    promises.allow(known.task.id, TaskStatus.BLOCKED)
    if known.doomed:
        promises.allow(known.task.id, TaskStatus.CANCELLED)
    if all(any(fate in FINAL and not dooms(known, each, fate) for fate in fates) for each, fates in may_be.items()):
        promises.allow(known.task.id, TaskStatus.QUEUED, TaskStatus.PENDING)


def _follow_back(promises: Promises, known: Known, after: Snapshot, found: dict[str, TaskStatus]) -> None:
    """A parent that failed was requeued, and what was cancelled because of it comes back."""
    actual = after.status(known.task.id)
    apart = {parent.id for parent in known.task.after if is_apart(promises, parent)}
    # What was requeued says so, though it may have failed again by now; what was taken for gone may tell late.
    returned = {parent for parent in known.doomed & apart if known.kin[parent].lives or parent in known.gone}
    lives_again = bool(returned) or any(found[parent] not in FAILED for parent in known.doomed)
    if lives_again and actual in {TaskStatus.BLOCKED, TaskStatus.QUEUED}:
        promises.allow(known.task.id, actual)
        promises.count(known.task, "requeued")
        promises.events["TASK_QUEUED"] += 1
        known.begin_again()
        known.gone -= returned


def note_waiting(promises: Promises, after: Snapshot) -> None:
    """Which tasks wait for parents now, and which were cancelled for the sake of one."""
    for task_id, known in promises.tasks.items():
        if known.task.after and known.status is not None:
            record = after.records.get(task_id, {})
            awaited = int(record.get("A", "0").split(" ")[0])
            known.awaits = known.status is TaskStatus.BLOCKED and awaited > 0
            known.is_victim = known.status is TaskStatus.CANCELLED and record.get("m", "").startswith("parent_")
            known.gone |= {each.id for each in known.task.after if _was_gone(known, each, record.get("m", ""))}


def _was_gone(known: Known, parent: Parent, reason: str) -> bool:
    """Whether a task was cancelled for the sake of a parent that had succeeded, and was gone when it was asked."""
    kin = known.kin[parent.id]
    return known.is_victim and kin.status is None and reason == f"parent_failed:{parent.id}"


def check_families(after: Snapshot, promises: Promises) -> None:
    """Nobody waits for what has ended, once all messages have arrived; and who was cancelled comes back."""
    if after.outbox or promises.is_damaged:
        return
    for task_id, known in promises.tasks.items():
        if not known.task.after or not (known.awaits or known.is_victim) or known.status is None:
            continue
        if is_unsure(promises, known):
            continue
        found = fates(promises, known)
        is_right = known.awaits != is_doomed(known, found)
        expect(is_right, "who waits may hope, who was cancelled for a parent may not", task_id, found)
        is_over = all(fate in FINAL for fate in found.values())
        expect(not known.awaits or not is_over, "nobody waits for parents that have all ended", task_id, found)
