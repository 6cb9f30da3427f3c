"""Exceptions as text: whatever they are, describing them does not raise."""

import pytest

from dtq_engine.codec import describe_error


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_class_message_and_place_are_kept():
    described = describe_error(raised(ValueError("no such account")))
    assert (described.type, described.message) == ("ValueError", "no such account")
    assert "test_describe_error.py" in described.traceback
    assert described.traceback.endswith("ValueError: no such account\n")


def test_a_long_message_is_cut_to_1_kib():
    described = describe_error(ValueError("ü" * 5000))
    assert len(described.message.encode()) <= 1024
    assert described.message.startswith("üüü")
    assert described.message.endswith("…")


def test_of_a_long_traceback_the_end_is_kept():
    described = describe_error(raised(ValueError("x" * 9000 + "the end")))
    assert len(described.traceback.encode()) <= 4096
    assert described.traceback.endswith("the end\n")


def test_a_chain_shows_its_cause():
    def fail() -> None:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise RuntimeError("outer") from error

    with pytest.raises(RuntimeError) as caught:
        fail()
    described = describe_error(caught.value)
    assert "KeyError: 'inner'" in described.traceback
    assert "direct cause" in described.traceback


def test_a_group_names_its_members():
    described = describe_error(
        raised(ExceptionGroup("both failed", [ValueError("a"), ExceptionGroup("g", [OSError("b")])]))
    )
    assert described.type == "ExceptionGroup"
    assert "both failed" in described.message
    assert "ValueError: a" in described.message
    assert "OSError: b" in described.message
    assert "OSError: b" in described.traceback


@pytest.mark.parametrize("trouble", [ValueError, RecursionError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_str_that_raises_costs_only_the_message(trouble):
    class Hostile(Exception):
        def __str__(self) -> str:
            raise trouble("in str")

        __repr__ = __str__

    described = describe_error(raised(Hostile()))
    assert described.type == "Hostile"
    assert trouble.__name__ in described.message


def test_a_str_that_returns_no_text_costs_only_the_message():
    class Hostile(Exception):
        def __str__(self) -> str:
            return 5  # type: ignore[return-value]  # noqa: PLE0307

    assert "TypeError" in describe_error(raised(Hostile())).message


def test_text_that_is_not_valid_is_made_so():
    described = describe_error(raised(ValueError("a\ud800b")))
    assert described.message == "a\\ud800b"
    described.traceback.encode()


def test_an_exception_without_message_has_none():
    assert describe_error(ValueError()).message == ""


def test_endless_recursion_is_described():
    def forever() -> None:
        forever()

    with pytest.raises(RecursionError) as caught:
        forever()
    described = describe_error(caught.value)
    assert described.type == "RecursionError"
    assert "forever" in described.traceback
