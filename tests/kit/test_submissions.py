"""What was submitted, and how a test asserts it."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from unittest.mock import ANY
from uuid import UUID

import pytest

from dtq_engine import DtqError, InvalidTask
from dtq_engine.testing import KitMisused


@dataclass
class Address:
    street: str
    number: int


@pytest.fixture
def mail(dtq_app):
    @dtq_app.task("shop.mail")
    def mail(to: str, subject: str = "Hello", *, times: int = 1) -> None:
        """Only submitted here."""

    return mail


def message_of(call) -> str:
    with pytest.raises(AssertionError) as failed:
        call()
    return str(failed.value)


def test_a_failure_shows_what_was_submitted_those_of_the_type_first(dtq, dtq_app, mail):
    dtq_app.named("other").options(delay=90, priority=9, headers={"tenant": "a"}).submit(n=1)
    mail.options(queue="mails").submit("ann@example.com", "A" * 200)
    assert message_of(lambda: dtq.assert_submitted(mail, to="bob@example.com", options={"delay": 60})) == (
        "shop.mail(to='bob@example.com') delay=60 was not submitted.\n"
        "Submitted were:\n"
        f"  shop.mail(to='ann@example.com', subject='{'A' * 96}...) queue='mails'\n"
        "  other(n=1) priority=9 delay=90.0 headers={'tenant': 'a'}"
    )


def test_a_failure_names_the_task_that_may_have_been_meant(dtq, mail):
    assert message_of(lambda: dtq.assert_submitted("shop.mial")) == (
        "shop.mial() was not submitted.\nNothing was submitted.\nNo task is called shop.mial; did you mean shop.mail?"
    )


def test_a_long_list_is_cut(dtq, mail):
    for number in range(30):
        mail.submit(f"{number}@example.com")
    assert message_of(lambda: dtq.assert_submitted("shop.mail", to="x")).endswith("\n  … and 10 more")


def test_the_number_of_times_counts(dtq, mail):
    dtq.assert_submitted(mail, times=0)
    mail.submit("ann@example.com")
    mail.submit("ann@example.com", "Bye")
    assert len(dtq.assert_submitted(mail, to="ann@example.com", times=2)) == 2
    dtq.assert_submitted(mail, subject="Bye", times=1)
    assert message_of(lambda: dtq.assert_submitted(mail, times=1)).startswith(
        "shop.mail() was submitted 2 times instead of once.\n"
    )
    assert message_of(lambda: dtq.assert_not_submitted(mail, subject="Bye")).startswith(
        "shop.mail(subject='Bye') was submitted once.\n"
    )
    assert message_of(dtq.assert_not_submitted).startswith("a task was submitted 2 times.\n")


def test_arguments_may_be_given_by_position_by_name_or_as_a_mapping(dtq, mail):
    mail.submit("ann@example.com", times=3)
    dtq.assert_submitted(mail, "ann@example.com")
    dtq.assert_submitted(mail, arguments={"times": 3, "to": "ann@example.com"}, times=1)
    dtq.assert_not_submitted(mail, arguments={"times": 4})
    dtq.assert_not_submitted(mail, subject="Hello")  # the default is the handler's to fill in
    with pytest.raises(
        KitMisused, match=r"shop\.mail takes 2 positional arguments, as far as is known: name the others"
    ):
        dtq.assert_submitted(mail, 1, 2, 3)
    with pytest.raises(KitMisused, match="elsewhere takes 0 positional"):
        dtq.assert_submitted("elsewhere", 1)


def test_arguments_of_all_types_can_be_compared_and_some_left_open(dtq, dtq_app):
    @dtq_app.task("typed")
    def typed(when: datetime, id: UUID, price: Decimal, address: Address, ratio: float, tags: list[str]) -> None:
        """Only submitted here."""

    when, uuid = datetime(2026, 10, 1, 12, tzinfo=UTC), UUID(int=7)
    typed.submit(when, uuid, Decimal("1.10"), Address("Elm", 5), 0.1 + 0.2, ["a"])
    dtq.assert_submitted(typed, when=when, id=uuid, price=Decimal("1.10"), address=Address("Elm", 5), tags=["a"])
    dtq.assert_submitted(typed, when="2026-10-01T12:00:00Z", address={"street": "Elm", "number": 5}, tags=("a",))
    dtq.assert_submitted(typed, ratio=pytest.approx(0.3), id=ANY)
    dtq.assert_not_submitted(typed, when=when + timedelta(seconds=1))
    assert dtq.submitted("typed")[0].arguments["address"] == Address("Elm", 5)


def test_options_are_compared_as_they_were_meant(dtq, mail):
    when = datetime(2030, 1, 1, tzinfo=UTC)
    mail.options(run_at=when, expires_in=timedelta(hours=1), timeout=5, max_attempts=2, headers={"a": "1"}).submit("x")
    mail.options(id="own-id", delay=1.5, idempotency_key="k", priority=0).submit("y")
    dtq.assert_submitted(
        mail, to="x", options={"run_at": when, "expires_in": 3600, "timeout": timedelta(seconds=5), "max_attempts": 2}
    )
    dtq.assert_submitted(mail, to="y", options={"id": "own-id", "delay": timedelta(seconds=1.5), "priority": 0})
    dtq.assert_not_submitted(mail, to="x", options={"delay": 60})
    dtq.assert_not_submitted(mail, options={"headers": {"a": "2"}})
    with pytest.raises(KitMisused, match="dealy is not an option of a task: use id, queue, priority, delay"):
        dtq.assert_submitted(mail, options={"dealy": 60})


def test_only_what_was_accepted_counts(dtq, dtq_app, mail):
    with pytest.raises(InvalidTask):
        dtq_app.named("shop.mail").submit(to=7)
    submitter = mail.options(idempotency_key="k")
    submitter.submit("ann@example.com")
    assert submitter.submit("ann@example.com").duplicate
    answers = dtq_app.submit_many([mail.prepare("b@example.com"), submitter.prepare("other@example.com")])
    assert [isinstance(answer, DtqError) for answer in answers] == [False, True]
    assert [each.arguments["to"] for each in dtq.submitted()] == ["ann@example.com", "b@example.com"]


def test_tasks_that_go_in_several_calls_count_one_by_one_at_the_time_of_the_test(dtq, dtq_app, mail, monkeypatch):
    monkeypatch.setattr("dtq_engine.submission.TASKS_PER_CALL", 2)
    dtq.advance(3600)
    many = [mail.options(queue="never-seen", delay=60).prepare(f"{number}@example.com") for number in range(5)]
    handles = dtq_app.submit_many(many)
    dtq.assert_submitted(mail, times=5)
    assert dtq.run_all() == []
    dtq.advance(60)
    assert len(dtq.run_all()) == 5
    assert all(handle.status().is_final for handle in handles)


def test_clear_forgets_the_tasks_too(dtq, dtq_app, mail):
    handle = mail.submit("ann@example.com")
    dtq.advance(60)
    dtq.clear()
    dtq.assert_not_submitted()
    assert dtq.run_all() == []
    assert dtq_app.store.inspect.find([handle.id]) == [None]
    again = mail.options(delay=60).submit("ann@example.com")
    dtq.advance(60)
    dtq.run_all()
    assert again.result() is None


@pytest.mark.parametrize(
    ("task", "arguments", "complaint"),
    [
        ("shop.mial", {}, "shop.mial is no task of the app: did you mean shop.mail?"),
        ("shop.mail", {"too": "x"}, "shop.mail has no argument too, so that this says nothing: correct it."),
    ],
)
def test_what_could_not_have_been_submitted_anyway_is_no_assertion(dtq, mail, task, arguments, complaint):
    with pytest.raises(KitMisused) as refused:
        dtq.assert_not_submitted(task, arguments=arguments)
    assert str(refused.value) == complaint
    dtq.assert_not_submitted("another.app")


def test_a_misspelt_argument_is_pointed_out(dtq, mail):
    mail.submit("ann@example.com")
    assert message_of(lambda: dtq.assert_submitted(mail, subjct="Hello")).endswith(
        "shop.mail has no argument subjct; did you mean subject?"
    )


@pytest.mark.parametrize("thing", [5, len])
def test_what_is_no_task_is_refused(dtq, thing):
    for use in (dtq.assert_submitted, dtq.assert_not_submitted, dtq.submitted):
        with pytest.raises(KitMisused, match=r"is no task: name its type, or pass what @app.task"):
            use(thing)
