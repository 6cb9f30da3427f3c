"""What other threads want of the one that waits in a selector."""

import socket
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

Order = Callable[[], None]


class Orders:
    """Calls that any thread puts, and one thread carries out; each wakes it."""

    def __init__(self) -> None:
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)

    def fileno(self) -> int:
        """The socket, for a selector."""
        return self._woken.fileno()

    def put(self, order: Order) -> None:
        """Have this called."""
        self._orders.put(order)
        with suppress(OSError):  # it is awake, or has ended
            self._waker.send(b"!")

    def carry_out(self) -> None:
        """Call all that were put."""
        with suppress(BlockingIOError):
            self._woken.recv(4096)
        with suppress(Empty):
            while True:
                self._orders.get_nowait()()

    def close(self) -> None:
        """Let go of the sockets; what is put from now on is not carried out."""
        self._woken.close()
        self._waker.close()
