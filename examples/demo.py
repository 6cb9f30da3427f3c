"""A demonstration on real files: `python -m examples.demo`, or `make run`.

Starts a Valkey server of its own (or uses DTQ_REDIS_URL), one worker process and one web process, submits a few
hundred tasks through the JSON API, about the text files of this repository, beside some that fail, wait, overrun or
are cancelled, shows how they fare, and says whether each ended as it should.
"""

import sys
from pathlib import Path

import click


@click.command()
@click.option("--once", is_flag=True, help="End when all tasks have: exit code 0 if each ended as it should.")
@click.option(
    "--time-limit", type=float, default=120.0, show_default=True, metavar="SECONDS", help="How long the tasks may take."
)
@click.option("--app", default="examples.tasks:app", metavar="MODULE:APP", help="Whose handlers the worker runs.")
@click.option("--data", default=".dtq", metavar="FOLDER", help="Where the server of its own keeps its data.")
def main(once: bool, time_limit: float, app: str, data: str) -> None:
    """Run a few hundred tasks on real files, and tell how each kind of them ended."""
    try:
        # Loading takes a moment, in which someone may press Ctrl-C.
        from examples.demonstration import demonstrate

        sys.exit(demonstrate(once=once, time_limit_s=time_limit, worker_app=app, data=Path(data)))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
