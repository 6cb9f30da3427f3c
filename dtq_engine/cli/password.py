"""`dtq hash-password`: what DTQ_USERS names a person by."""

import sys

import click

from dtq_engine.cli.console import Console
from dtq_engine.cli.options import common
from dtq_engine.operator_shapes import PasswordShape

SHORTEST = 8
LONGEST = 1024
"""Nobody types more, and signing in looks at no more."""


@click.command("hash-password", short_help="Print the hash of a password, for DTQ_USERS.")
@click.option("--password", help="Asked for if left out; without a terminal, the first line of standard input.")
@common
@click.pass_obj
def hash_password(console: Console, password: str | None) -> int:
    """Print the Argon2 hash of a password, to be used in DTQ_USERS.

    \b
    Example:
      dtq hash-password
      export DTQ_USERS='alice:operator:$argon2id$v=19$…'      # in single quotes: a shell reads $ otherwise
    """
    password = _given() if password is None else password
    if len(password) < SHORTEST:
        raise click.UsageError(f"The password is too short: use at least {SHORTEST} characters.")
    if len(password) > LONGEST:
        raise click.UsageError(f"The password is too long: use at most {LONGEST:,} characters.")
    try:
        from argon2 import PasswordHasher  # only where the web process is installed, which alone checks passwords
    except ImportError:
        raise click.UsageError("Hashing needs the package argon2-cffi: pip install 'dtq[web]'.") from None
    hashed = PasswordHasher().hash(password)
    if console.json:
        console.emit(PasswordShape(hashed))
    else:
        console.say(hashed)
    return 0


def _given() -> str:
    """The password, typed twice at a terminal or piped once."""
    if sys.stdin is sys.__stdin__ and not (sys.stdin and sys.stdin.isatty()):
        line = sys.stdin.readline().rstrip("\r\n") if sys.stdin else ""
        if not line:
            raise click.UsageError("There is no terminal to ask for a password at: pipe it in, or give --password.")
        return line
    return str(click.prompt("Password", hide_input=True, confirmation_prompt=True))
