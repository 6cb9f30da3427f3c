"""Frames of JSON between two processes of one worker."""

import select
import socket
import struct
import threading
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

LENGTH = struct.Struct(">I")
CHUNK = 262_144


class Wire(Generic[T]):
    """One end of a pair of sockets; several threads may send, one reads.

    A frame is four bytes of length, then a message as JSON; `kinds` are the messages that may arrive.
    """

    def __init__(self, end: socket.socket, kinds: Any) -> None:
        self._end = end
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
            self._end.sendall(LENGTH.pack(len(data)) + data)

    def read(self) -> list[T]:
        """The messages that are complete, after waiting for something to arrive.

        Raises EOFError (or OSError) when the other side is gone, and msgspec.MsgspecError for what is no message.
        """
        data = self._end.recv(CHUNK)
        if not data:
            raise EOFError
        self._arrived += data
        messages: list[T] = []
        while (frame := self._next_frame()) is not None:
            messages.append(self._decoder.decode(frame))
        return messages

    def has_more(self) -> bool:
        """Whether there is something to read, the end included."""
        poll = select.poll()
        poll.register(self._end, select.POLLIN)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Let go of the socket."""
        self._end.close()

    def _next_frame(self) -> bytes | None:
        if len(self._arrived) < LENGTH.size:
            return None
        end = LENGTH.size + LENGTH.unpack_from(self._arrived)[0]
        if len(self._arrived) < end:
            return None
        frame = bytes(self._arrived[LENGTH.size : end])
        del self._arrived[:end]
        return frame
