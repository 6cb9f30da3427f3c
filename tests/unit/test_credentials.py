"""Settings that say who may use the web process."""

from dataclasses import replace

import pytest

from dtq_engine.config import Settings
from dtq_engine.errors import ConfigurationError

KEY = "k" * 20
HASH = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHQ$aGFzaA"
SECRET = "s" * 32


@pytest.mark.parametrize("between", [" ", "\n", ", ", ",", " \t\n"])
def test_entries_may_be_separated_in_several_ways_although_hashes_hold_commas(between):
    environ = {
        "DTQ_API_KEYS": between.join([f"shop:submit:{KEY}", f"ops:admin:{KEY}2"]),
        "DTQ_USERS": between.join([f"ada:admin:{HASH}", "bob:viewer:-", f"eve@example.org:operator:{HASH}"]),
        "DTQ_SECRET_KEY": SECRET,
    }
    settings = Settings.from_env(environ)
    assert settings.api_keys == (f"shop:submit:{KEY}", f"ops:admin:{KEY}2")
    assert settings.users == (f"ada:admin:{HASH}", "bob:viewer:-", f"eve@example.org:operator:{HASH}")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_keys", (f"shop:boss:{KEY}",)),
        ("api_keys", ("shop:submit:short",)),
        ("api_keys", (f"shop:{KEY}",)),
        ("api_keys", (KEY,)),
        ("api_keys", (f"shop:submit:{KEY}\n",)),
        ("api_keys", (f"shop:submit:{KEY}",) * 2),
        ("api_keys", ("shop:submit:sha256$abc",)),
        ("api_keys", [f"shop:submit:{KEY}"]),
        ("users", ("ada:admin:hunter2",)),
        ("users", (f"a b:admin:{HASH}",)),
        ("secret_key", "short"),
        ("trusted_user_header", "X User"),
    ],
)
def test_wrong_entries_are_refused_and_never_repeated(name, value):
    with pytest.raises(ConfigurationError) as caught:
        replace(Settings(), **{name: value})
    (problem,) = caught.value.problems
    assert problem.startswith(f"DTQ_{name.upper()} cannot be")
    assert not [secret for secret in (KEY, "hunter2", "short") if secret in problem]


def test_no_secret_is_in_what_settings_print():
    settings = Settings(api_keys=(f"shop:submit:{KEY}",), users=(f"ada:admin:{HASH}",), secret_key=SECRET)
    assert not [secret for secret in (KEY, HASH, SECRET) if secret in repr(settings)]


def test_passwords_need_a_key_to_sign_sessions_with():
    with pytest.raises(ConfigurationError, match="DTQ_SECRET_KEY"):
        Settings(users=(f"ada:admin:{HASH}",))
    assert Settings(users=("ada:admin:-",)).users


def test_nobody_is_two_people():
    with pytest.raises(ConfigurationError, match="DTQ_USERS names ada more than once"):
        Settings(users=("ada:admin:-", "ada:viewer:-"))
