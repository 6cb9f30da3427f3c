"""Frames of JSON between two processes of one worker."""

import errno
import os
import select
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

LENGTH = struct.Struct(">I")
CHUNK = 262_144
LOOK_MS = 500


class Wire(Generic[T]):
    """One end of a pair of sockets; several threads may send, one reads.

    A frame is four bytes of length, then a message as JSON; `kinds` are the messages that may arrive. A handler may
    have closed the socket and opened something of its own under the same number: that is neither written nor read.
    """

    def __init__(self, end: socket.socket, kinds: Any) -> None:
        self._end = end
        self._identity = _identity(end)
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kinds)
        self._arrived = bytearray()
        self._sending = threading.Lock()

    def fileno(self) -> int:
        """The socket, for a selector."""
        return self._end.fileno()

    def send(self, message: msgspec.Struct) -> None:
        """Send a message. Raises OSError if the other side is gone, or does not read within the socket's timeout."""
        data = msgspec.json.encode(message)
        with self._sending:
            self._check()
            self._end.sendall(LENGTH.pack(len(data)) + data)

    def read(self) -> list[T]:
        """The messages that are complete, after waiting for something to arrive.

        Raises EOFError (or OSError) when the other side is gone, and msgspec.MsgspecError for what is no message.
        """
        self._check()
        data = self._end.recv(CHUNK)
        if not data:
            raise EOFError
        self._arrived += data
        messages: list[T] = []
        while (frame := self._next_frame()) is not None:
            messages.append(self._decoder.decode(frame))
        return messages

    def listen(self) -> Iterator[T]:
        """The messages as they come, until it raises as `read` does.

        A blocking read would wait on though a handler has closed the socket: here that is seen half a second later.
        """
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        while True:
            if poll.poll(LOOK_MS):
                yield from self.read()
            else:
                self._check()

    def has_more(self) -> bool:
        """Whether there is something to read, the end included."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Let go of the socket."""
        self._end.close()

    def _check(self) -> None:
        if _identity(self._end) != self._identity:
            raise OSError(errno.EBADF, "the socket has been closed, and its number is another file's")

    def _next_frame(self) -> bytes | None:
        if len(self._arrived) < LENGTH.size:
            return None
        end = LENGTH.size + LENGTH.unpack_from(self._arrived)[0]
        if len(self._arrived) < end:
            return None
        frame = bytes(self._arrived[LENGTH.size : end])
        del self._arrived[:end]
        return frame


def _identity(end: socket.socket) -> tuple[int, int]:
    status = os.fstat(end.fileno())
    return status.st_dev, status.st_ino
