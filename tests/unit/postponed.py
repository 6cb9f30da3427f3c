"""Handlers whose annotations are strings, for the tests of signatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtq_engine.task import TaskContext

if TYPE_CHECKING:
    from decimal import Decimal

    from dtq_engine import context


@dataclass
class Spec:
    pages: int


def build(ctx: TaskContext, account_id: int, *, spec: Spec) -> dict[str, int]:
    return {"pages": spec.pages}


def checked_only(ctx: context.TaskContext, account_id: int) -> None: ...


def unresolved(amount: Decimal) -> None: ...


def unknown_result() -> Decimal:
    raise NotImplementedError


class Builder:
    def __call__(self, spec: Spec) -> int:
        return spec.pages
