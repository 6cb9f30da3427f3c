"""The command line. It speaks to Redis directly, through the same store as everything else."""

from dtq_engine.cli.root import main

__all__ = ["main"]
