"""Frames between two processes, at the edges of what may become of a socket."""

import os
import socket
from collections.abc import Iterator

import pytest

from dtq_engine.worker.messages import Begun, Leave, ToChild
from dtq_engine.worker.wire import Wire

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two connected sockets."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def replaced(pair: Pair) -> Iterator[tuple[Wire[ToChild], socket.socket]]:
    """A wire whose socket was closed while its number went to another one, and who reads at the other end of that."""
    wire = Wire[ToChild](pair[0], ToChild)
    end, reader = socket.socketpair()
    with end, reader:
        os.dup2(end.fileno(), wire.fileno())
        reader.setblocking(False)
        yield wire, reader


def test_messages_arrive_in_order(pair: Pair) -> None:
    sender, wire = Wire[ToChild](pair[1], ToChild), Wire[ToChild](pair[0], ToChild)
    sender.send(Leave())
    sender.send(Leave())
    pair[1].shutdown(socket.SHUT_RDWR)
    heard = wire.listen()
    assert [next(heard), next(heard)] == [Leave(), Leave()]
    with pytest.raises(EOFError):
        next(heard)


def test_nothing_is_written_to_a_socket_that_took_the_number(replaced: tuple[Wire[ToChild], socket.socket]) -> None:
    wire, reader = replaced
    with pytest.raises(OSError, match="its number is another file's"):
        wire.send(Begun())
    with pytest.raises(BlockingIOError):
        reader.recv(1)


def test_nothing_is_read_from_a_socket_that_took_the_number(replaced: tuple[Wire[ToChild], socket.socket]) -> None:
    wire, reader = replaced
    reader.send(b"for somebody else")
    with pytest.raises(OSError, match="its number is another file's"):
        next(wire.listen())


def test_who_listens_notices_that_its_socket_is_closed(pair: Pair) -> None:
    end = socket.socket(fileno=os.dup(pair[0].fileno()))
    wire = Wire[ToChild](end, ToChild)
    os.close(end.fileno())
    with pytest.raises(OSError, match="Bad file descriptor"):
        next(wire.listen())
    end.detach()
