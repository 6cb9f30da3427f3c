"""`dtq doctor`: what is wrong with a deployment, and what to do about it."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import click

from dtq_engine import findings
from dtq_engine.cli.console import Console
from dtq_engine.cli.options import common_with_handlers
from dtq_engine.config import Settings
from dtq_engine.engine import Dtq
from dtq_engine.errors import ConfigurationError, DtqError, RedisUnavailable
from dtq_engine.findings import Finding, Level
from dtq_engine.harmless import safe
from dtq_engine.operator_shapes import DoctorShape, FindingShape
from dtq_engine.shapes import sentence

OK, FOUND, CANNOT = 0, 1, 2
COLOURS = {Level.ERROR: "red", Level.WARNING: "yellow", Level.REPAIRED: "green"}
NOBODY = (
    "No DTQ_API_KEYS, DTQ_USERS or DTQ_TRUSTED_USER_HEADER is set, so that in production the web process serves nobody "
    "but /health: set one, if there is a web process."
)


@click.command(short_help="Look for what is wrong, and say what to do.")
@click.option("--repair", is_flag=True, help="Mend tasks that cannot be found where their records say.")
@click.option("--deploy", is_flag=True, help="Look at settings and server alone, and fail only for wrong settings.")
@common_with_handlers
@click.pass_obj
def doctor(console: Console, *, repair: bool, deploy: bool) -> int:
    """Look for what is wrong: settings, server, clock, memory, damaged keys and tasks, workers, queues.

    Each finding is a sentence that says what to do. It writes nothing without --repair. Exit code 0 if nothing
    was found, 1 if something was, 2 if the settings are wrong or there is no Redis. With --deploy, which is meant for
    a release phase, only wrong settings make it other than 0.

    \b
    Example:
      dtq doctor
      dtq doctor --repair --json
    """
    if repair and deploy:
        raise click.UsageError("Give --repair or --deploy, but not both: a deployment repairs nothing.")
    visit = Visit(console)
    code = visit.settings()
    if code == OK:
        code = visit.server(findings.QUICK if deploy else findings.CHECKS, repair=repair)
    visit.close()
    return code if code == OK or not deploy or visit.is_misconfigured else OK


@dataclass(slots=True)
class Visit:
    """One look at a deployment; findings are printed as they come, or with --json together."""

    console: Console
    looked_at: list[str] = field(default_factory=list[str])
    found: list[FindingShape] = field(default_factory=list[FindingShape])
    is_misconfigured: bool = False
    app: Dtq | None = None

    def settings(self) -> int:
        """Whether settings and app can be used; the exit code so far."""
        self.looked_at.append("settings")
        try:
            self.app = self.console.app(handlers=True)
            settings = self.app.settings
        except ConfigurationError as error:
            self.is_misconfigured = True
            for problem in error.problems:
                self._tell("settings", Finding(Level.ERROR, problem))
            return CANNOT
        if _serves_nobody(settings):
            self._tell("settings", Finding(Level.WARNING, NOBODY))
        return OK

    def server(self, checks: Collection[str], *, repair: bool) -> int:
        """All else; the exit code."""
        assert self.app is not None
        store, settings = self.app.store, self.app.settings
        try:
            store.connection.ping()
            for finding in self._repairs() if repair else ():
                self._tell("tasks", finding)
            for name in checks:
                self.looked_at.append(name)
                for finding in findings.CHECKS[name](store, settings):
                    self._tell(name, finding)
        except RedisUnavailable as error:
            self._tell("redis", Finding(Level.ERROR, sentence(error)))
            return CANNOT
        except DtqError as error:
            self._tell(self.looked_at[-1], Finding(Level.ERROR, sentence(error)))
        return FOUND if any(each.level != Level.REPAIRED for each in self.found) else OK

    def _repairs(self) -> Iterator[Finding]:
        assert self.app is not None
        for what, number in sorted(self.app.store.sweep.run().items()):
            yield Finding(Level.REPAIRED, f"{findings.damaged(what, number)}: mended.")

    def _tell(self, check: str, finding: Finding) -> None:
        self.found.append(FindingShape(level=str(finding.level), check=check, message=finding.message))
        if not self.console.json:
            level = click.style(str(finding.level).ljust(8), fg=COLOURS[finding.level])
            self.console.say(f"{level}  {safe(finding.message)}")

    def close(self) -> None:
        """The end of the report."""
        if self.app is not None:
            self.app.close()
        if self.console.json:
            self.console.emit(DoctorShape(self.looked_at, self.found))
        elif not self.found:
            self.console.say(f"Nothing is wrong with {', '.join(self.looked_at)}.")


def _serves_nobody(settings: Settings) -> bool:
    lets_in = settings.api_keys or settings.users or settings.trusted_user_header or settings.open
    return settings.env == "production" and not lets_in
