"""Other task queues behind one small interface, each run by an environment of its own: see `harness.py`."""
