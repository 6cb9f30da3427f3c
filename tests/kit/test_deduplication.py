"""Unique tasks, throttling and debouncing in the test kit."""


def test_a_unique_task_is_made_once_until_it_has_run(dtq, dtq_app):
    seen = []

    @dtq_app.task("reports.build", unique="until_done", unique_key=("account",))
    def build(account: int, note: str = "") -> None:
        seen.append((account, note))

    first, again, other = build.submit(7, "a"), build.submit(7, "b"), build.submit(8)
    assert (again.id, again.outcome, again.duplicate) == (first.id, "duplicate", True)
    assert other.outcome == "new"
    dtq.run_all()
    assert sorted(seen) == [(7, "a"), (8, "")]
    assert build.submit(7).outcome == "new"


def test_a_throttle_counts_by_the_clock_of_the_test(dtq, dtq_app):
    @dtq_app.task("ping", at_most=1, per=60)
    def ping() -> None: ...

    first = ping.submit()
    dtq.advance(59)
    assert (ping.submit().id, ping.submit().outcome) == (first.id, "throttled")
    dtq.advance(2)
    assert ping.submit().outcome == "new"


def test_a_debounced_task_runs_once_with_what_was_said_last(dtq, dtq_app):
    seen = []

    @dtq_app.task("search.index", debounce=30, debounce_max=300, unique_key="{page}")
    def index(page: str, text: str) -> None:
        seen.append((page, text))

    for n in range(5):
        index.submit("home", f"v{n}")
        dtq.advance(20)
    assert dtq.run_all() == []
    dtq.advance(11)
    dtq.run_all()
    assert seen == [("home", "v4")]
    assert index.submit("home", "v5").outcome == "new"


def test_inline_a_debounced_task_runs_at_its_time(dtq, dtq_app):
    @dtq_app.task("ping", debounce=5)
    def ping() -> None: ...

    dtq.inline = True
    handle = ping.submit()
    dtq.advance(6)
    assert handle.status() == "succeeded"
