"""`python -m dtq_engine.cli` is `dtq`."""

from dtq_engine.cli import main

main()
