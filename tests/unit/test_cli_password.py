"""The hash of a password, as DTQ_USERS wants it."""

import subprocess
import sys

import pytest
from argon2 import PasswordHasher
from click.testing import CliRunner

from dtq_engine.cli.console import Console
from dtq_engine.cli.root import root
from dtq_engine.config import Settings
from webapp.passwords import PASSWORD_MAX


def run(*arguments: str, typed: str = "") -> tuple[int, str]:
    ran = CliRunner().invoke(root, ["hash-password", *arguments], obj=Console(), input=typed)
    return ran.exit_code, ran.output


def test_a_password_is_asked_for_twice_and_its_hash_can_be_set():
    code, said = run(typed="correct horse\ncorrect horse\n")
    hashed = said.strip().splitlines()[-1]
    assert code == 0
    assert "correct horse" not in said
    assert PasswordHasher().verify(hashed, "correct horse")
    settings = Settings.from_env({"DTQ_USERS": f"alice:operator:{hashed}", "DTQ_SECRET_KEY": "k" * 32})
    assert settings.users == (f"alice:operator:{hashed}",)


@pytest.mark.parametrize("typed", ["short\nshort\n", "\n\n"])
def test_a_short_password_is_refused(typed):
    assert run(typed=typed)[0] != 0


def test_a_password_is_refused_where_signing_in_would_cut_it():
    longest, longer = "x" * PASSWORD_MAX, "x" * (PASSWORD_MAX + 1)
    assert run(typed=f"{longest}\n{longest}\n")[0] == 0
    code, said = run(typed=f"{longer}\n{longer}\n")
    assert code != 0
    assert "at most 1,024 characters" in said


def test_two_passwords_that_differ_are_asked_for_again():
    assert "do not match" in run(typed="correct horse\nwrong horse\n")[1]


@pytest.mark.parametrize(("piped", "code"), [(b"", 2), (b"correct horse\n", 0)])
def test_without_a_terminal_the_password_is_read_from_the_pipe_or_asked_for_in_a_sentence(piped: bytes, code: int):
    ran = subprocess.run(
        [sys.executable, "-m", "dtq_engine.cli", "hash-password"],
        input=piped,
        capture_output=True,
        timeout=60,
        check=False,
        start_new_session=True,
    )
    assert ran.returncode == code, ran.stderr
    assert b"Warning" not in ran.stderr
    assert (b"There is no terminal to ask for a password at" in ran.stderr) is (code != 0)
