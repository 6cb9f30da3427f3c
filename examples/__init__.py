"""Tasks to copy from (`tasks.py`), and a demonstration that runs them all (`python -m examples.demo`)."""
