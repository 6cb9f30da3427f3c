"""A SQLAlchemy session for each task: committed at its end, rolled back when it fails, closed with the worker."""

import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dtq_engine import Dtq, Task
from tests.recipes.conftest import Cook

MORE = """
from sqlalchemy import event

note = lambda text: Path("notes").open("a").write(text + "\\n")
event.listen(Session, "after_commit", lambda session: note("commit"))
event.listen(Session, "after_rollback", lambda session: note("rollback"))
event.listen(engine, "close", lambda *_: note("closed"))
event.listen(engine, "connect", lambda *_: note("connected"))

@app.task("orders.overrun")
def overrun(ctx: TaskContext) -> None:
    session.get().execute(text("update orders set shipped = 7"))
    while not ctx.cancelled:
        time.sleep(0.01)
"""


@pytest.mark.drains
def test_a_task_commits_what_it_did_or_nothing(
    app: Dtq, cook: Cook, ended: Callable[..., Task], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("create table orders (id integer primary key, shipped integer)")
        database.execute("insert into orders values (-1, 0), (1, 0), (2, 0)")
    worker = cook("sqlalchemy_tasks", MORE)
    notes = tmp_path / "notes"
    assert not notes.exists()  # importing the tasks has connected to nothing
    app.named("orders.ship").submit(order=1).result(timeout=10)
    assert ended(app.named("orders.ship").options(max_attempts=1).submit(order=-1)).errors[0].message == "rolled back"
    assert ended(app.named("orders.overrun").options(timeout=0.2, max_attempts=1).submit()).errors[0].type == "TimedOut"
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database:
        assert database.execute("select id, shipped from orders order by id").fetchall() == [(-1, 0), (1, 1), (2, 0)]
    told = notes.read_text().splitlines()
    assert [line for line in told if line in {"commit", "rollback"}] == ["commit", "rollback", "rollback"]
    assert told[0] == "connected"
    assert told.count("closed") == told.count("connected")
