"""The first code of a process that a worker starts: `python boot.py ROLE SOCKET LEASH`.

It is run as a file, before dtq can be imported: only the first message says where modules are found, so that the
new process imports what the one that started it imports. Never imported itself.
"""

import importlib
import json
import os
import signal
import struct
import sys


def main() -> None:
    """Take over the import path, and become what the role says."""
    role, end, leash = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    del sys.argv[1:]
    if leash >= 0:
        # Whoever holds the leash ends it; a signal to all processes of a machine does not, while it is starting.
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)
    (size,) = struct.unpack(">I", read(end, 4))
    greeting = read(end, size)
    sys.path[:] = json.loads(greeting)["path"]
    importlib.import_module(f"dtq_engine.worker.{role}").main(end, leash, greeting)


def read(end: int, size: int) -> bytes:
    """Exactly `size` bytes; without them there is nobody to work for."""
    data = b""
    while len(data) < size:
        if not (more := os.read(end, size - len(data))):
            sys.exit(0)
        data += more
    return data


if __name__ == "__main__":
    main()
