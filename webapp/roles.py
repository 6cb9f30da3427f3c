"""Roles, and what each of them is allowed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What someone may do.

    `submit`: send tasks, and look at, wait for and cancel one whose id is known. `viewer`: look at everything but
    the audit log. `operator`: both, and act on single tasks, dead letters and queues. `admin`: all, also what
    cannot be undone: purge and discard. `metrics`: read the numbers.
    """

    SUBMIT = "submit"
    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    METRICS = "metrics"


HOLDS: Mapping[Role, frozenset[Role]] = {
    Role.SUBMIT: frozenset({Role.SUBMIT}),
    Role.VIEWER: frozenset({Role.VIEWER, Role.METRICS}),
    Role.OPERATOR: frozenset({Role.OPERATOR, Role.VIEWER, Role.SUBMIT, Role.METRICS}),
    Role.ADMIN: frozenset(Role),
    Role.METRICS: frozenset({Role.METRICS}),
}
"""The roles that each role stands for."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a request. `by_token`: by a secret in a header, which no other site can make a browser send."""

    name: str
    role: Role
    by_token: bool = False
    looks_only: bool = False
    """Whether the web process changes nothing for anybody."""

    def holds(self, *roles: Role) -> bool:
        """Whether one of `roles` is theirs."""
        return not HOLDS[self.role].isdisjoint(roles)

    def may(self, *roles: Role) -> bool:
        """Whether they may change here what needs one of `roles`."""
        return not self.looks_only and self.holds(*roles)
