"""Cursors as the command line shows them."""

import base64
import zlib

import msgspec
import pytest

from dtq_engine.cursors import packed, unpacked

MARKS = {f"dtq:stream:{{default}}:p{priority}": f"17959746025{priority}0-0" for priority in range(10)}
LONG = base64.urlsafe_b64encode(msgspec.json.encode(MARKS)).decode().rstrip("=")


def test_a_long_cursor_is_shown_short_and_read_back():
    shown = packed(LONG)
    assert shown is not None
    assert len(shown) < len(LONG) / 2
    assert unpacked(shown) == LONG


@pytest.mark.parametrize("cursor", [None, "e30", "eyJhIjoiMSJ9"])
def test_a_short_cursor_stays_as_it_is(cursor):
    assert unpacked(packed(cursor)) == cursor
    assert unpacked(cursor) == cursor


@pytest.mark.parametrize("text", ["z", "zzz", "zé", "z****", "z" + base64.urlsafe_b64encode(b"no").decode()])
def test_what_is_no_cursor_is_left_to_the_store_to_refuse(text):
    assert unpacked(text) in {text, ""}


def test_a_cursor_cannot_blow_up_the_memory():
    bomb = base64.urlsafe_b64encode(zlib.compress(bytes(100_000_000))).decode()
    assert len(unpacked("z" + bomb) or "") < 2_000_000
