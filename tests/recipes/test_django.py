"""Django's connections: what is old is closed before and after each task."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dtq_engine import Dtq
from tests.recipes.conftest import Cook

SETTINGS = """
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.db", "CONN_MAX_AGE": 0}}
USE_TZ = True
"""
MORE = """
@app.task("connection.is.open")
def is_open() -> bool:
    return connection.connection is not None

@app.task("orders.break")
def break_it(ctx: TaskContext) -> int:
    with connection.cursor() as cursor:
        cursor.execute("select 1")
    if ctx.attempt == 1:
        raise ValueError("with a connection open")
    return ctx.attempt
"""


@pytest.mark.drains
def test_no_task_leaves_a_connection_to_the_next_one(
    app: Dtq, cook: Cook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as database, database:
        database.execute("create table orders (id integer primary key)")
        database.execute("insert into orders values (1), (2)")
    (tmp_path / "shop_settings.py").write_text(SETTINGS)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "shop_settings")
    monkeypatch.setenv("DTQ_WORKER_CONCURRENCY", "1")  # one thread, so that the next task would find it
    cook("django_tasks", MORE)
    assert app.named("orders.count").submit().result(timeout=10) == 2
    assert app.named("connection.is.open").submit().result(timeout=10) is False
    assert app.named("orders.break").submit().result(timeout=10) == 2
    assert app.named("connection.is.open").submit().result(timeout=10) is False
