"""A worker process, set up by environment variables alone: `DTQ_TASKS=shop.tasks:app python worker_main.py`."""

from dtq_engine.worker.process import main

if __name__ == "__main__":
    main()
