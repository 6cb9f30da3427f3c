"""The parts of the web process, each a blueprint."""

from flask import Blueprint

from webapp import api, events, login, metrics, pages, probes


def blueprints() -> list[Blueprint]:
    """All of them, in the order of registration."""
    parts = [probes.blueprint, login.blueprint, metrics.blueprint, events.blueprint]
    return [*parts, api.blueprint(), pages.blueprint()]
