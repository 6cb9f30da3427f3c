"""The system: the server below, what the doctor finds, and the settings in force."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast
from urllib.parse import urlsplit

from flask import Blueprint, Response

from dtq_engine import DtqError, Settings
from dtq_engine.findings import CHECKS, Finding, Level
from webapp.pages.render import page
from webapp.pages.text import size, span
from webapp.rights import require
from webapp.roles import Role
from webapp.state import web

blueprint = Blueprint("system", __name__)

LOOKED_AT = ("server", "clock", "memory", "keys", "queues")
"""What of `dtq doctor` is looked at here: all that does not walk over the tasks, or wait."""

SECTIONS = ("server", "clients", "memory", "persistence", "stats", "replication", "cpu")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting as it is in force; `value` says so if it is secret."""

    variable: str
    value: str
    doc: str
    is_default: bool


@blueprint.get("/system")
@require(Role.VIEWER)
def index() -> Response:
    """As it is at this moment."""
    store = web().app.store
    return page(
        "system/index.html",
        live="system/_live.html",
        nodes=[dict(_facts(_info(node))) for node in store.connection.nodes()],
        findings=list(_findings()),
        queues=store.stats.queues(store.inspect.queues()),
        leads=store.health.has_leader(),
        settings=list(_settings(web().settings)),
    )


def _findings() -> Iterator[Finding]:
    for name in LOOKED_AT:
        try:
            yield from CHECKS[name](web().app.store, web().settings)
        except DtqError as error:
            yield Finding(Level.ERROR, f"The check of {name} failed: {error}")


def _info(node: Any) -> Mapping[str, str]:
    found = dict[str, str]()
    for section in SECTIONS:
        found |= node.info(section)
    return {name: value.strip() for name, value in found.items()}


def _facts(info: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    valkey = info.get("server_name") == "valkey"
    yield "Server", f"Valkey {info['valkey_version']}" if valkey else f"Redis {info.get('redis_version', '?')}"
    mode = info.get("redis_mode") or info.get("server_mode", "?")
    yield "Mode, role", f"{mode}, {info.get('role', '?')}"
    yield "Up for", span(1000 * _whole(info, "uptime_in_seconds"))
    limit = _whole(info, "maxmemory")
    yield "Memory", f"{size(_whole(info, 'used_memory'))} of {size(limit) if limit else 'no limit'}"
    yield "Peak memory", size(_whole(info, "used_memory_peak"))
    yield "Eviction", info.get("maxmemory_policy", "hidden")
    yield "Append-only file", "on" if info.get("aof_enabled") == "1" else "off"
    yield "Last save", "well" if info.get("rdb_last_bgsave_status") == "ok" else "failed"
    yield "Replicas", info.get("connected_slaves", "?")
    yield "Connections", info.get("connected_clients", "?")
    yield "Commands", f"{info.get('instantaneous_ops_per_sec', '?')}/s"


def _whole(info: Mapping[str, str], name: str) -> int:
    found = info.get(name, "")
    return int(found) if found.isdigit() else 0


def _settings(settings: Settings) -> Sequence[Setting]:
    defaults = Settings()
    return [
        Setting(
            f"DTQ_{each.name.upper()}",
            _shown(each.name, getattr(settings, each.name), each.metadata["kind"].secret or not each.repr),
            each.metadata["kind"].doc,
            getattr(settings, each.name) == getattr(defaults, each.name),
        )
        for each in fields(Settings)
    ]


def _shown(name: str, value: object, is_secret: bool) -> str:
    if value in {None, "", ()}:
        return "not set"
    if name == "redis_url":
        return _place(str(value))
    if is_secret:
        return "set, and secret"
    return ", ".join(map(str, cast("tuple[object, ...]", value))) if isinstance(value, tuple) else str(value)


def _place(url: str) -> str:
    """An address without what it says about who connects."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
