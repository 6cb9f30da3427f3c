"""Settings: read once, checked whole, and honest about what is wrong."""

import dataclasses
import math

import pytest

from dtq_engine.config import SETTINGS, Settings, variable
from dtq_engine.errors import ConfigurationError
from tests.support.environ import environ_of
from tools.write_docs import SETTINGS_PAGE, settings_page


def problems_of(**environ: str) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        Settings.from_env(environ)
    return caught.value.problems


def test_an_empty_environment_gives_the_defaults():
    assert Settings.from_env({}) == Settings()


def test_a_setting_is_read_from_the_variable_that_bears_its_name():
    assert Settings.from_env({"DTQ_WORKER_CONCURRENCY": "4"}).worker_concurrency == 4


def test_every_setting_survives_the_way_through_the_environment():
    unusual = Settings(
        redis_url="rediss://user:pass@example.org:6380/3",
        prefix="shop",
        tasks="shop.tasks:app",
        env="production",
        queues=("mail", "default"),
        release="abc123",
        worker_queues=("mail",),
        worker_id="w-1",
        visibility_timeout_s=2.5,
        heartbeat_interval_s=0.5,
        alive_file="/tmp/alive",
        retry_jitter=0,
        dlq_enabled=False,
        allow_eviction=True,
        idem_conflict="reject",
        log_level="DEBUG",
        log_json=True,
        secret_key="s" * 32,
        api_keys=(f"shop:submit:{'k' * 20}", f"ops:admin:sha256${'0' * 64}"),
        users=("ada:admin:$argon2id$v=19$m=65536,t=3,p=4$c2FsdA$aGFzaA", "bob:viewer:-"),
        trusted_user_header="X-User",
        trusted_proxies=1,
        open=True,
        web_threads=8,
    )
    environ = {name: value for name, value in environ_of(unusual).items() if name.startswith("DTQ_")}
    assert Settings.from_env(environ) == unusual


def test_white_space_around_a_value_and_empty_variables_do_not_matter():
    assert Settings.from_env({"DTQ_MAX_ATTEMPTS": " 3 ", "DTQ_TASKS": "", "DTQ_WORKER_QUEUES": "a, b"}) == Settings(
        max_attempts=3, worker_queues=("a", "b")
    )


@pytest.mark.parametrize("written", ["1", "true", "Yes", "ON"])
def test_a_switch_may_be_written_in_several_ways(written):
    assert Settings.from_env({"DTQ_LOG_JSON": written}).log_json is True


def test_a_log_level_may_be_written_in_small_letters():
    assert Settings.from_env({"DTQ_LOG_LEVEL": "debug"}).log_level == "DEBUG"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"REDIS_URL": "redis://a"}, "redis://a"),
        ({"REDIS_URL": "redis://a", "REDIS_TLS_URL": "rediss://b"}, "rediss://b"),
        ({"REDIS_URL": "redis://a", "REDIS_TLS_URL": "rediss://b", "DTQ_REDIS_URL": "redis://c"}, "redis://c"),
        ({"REDIS_URL": "redis://a", "DTQ_REDIS_URL": ""}, "redis://a"),
    ],
)
def test_the_address_of_redis_comes_from_the_first_variable_that_is_set(environ, expected):
    assert Settings.from_env(environ).redis_url == expected


def test_the_release_is_found_where_platforms_put_it():
    assert Settings.from_env({"HEROKU_SLUG_COMMIT": "abc"}).release == "abc"
    assert Settings.from_env({"SOURCE_VERSION": "def"}).release == "def"


@pytest.mark.parametrize(
    "url",
    [
        "redis://h",
        "redis://h/",
        "redis://:secret@h:6379/15",
        "redis://[::1]:6379/0",
        "rediss://h:6380?ssl_cert_reqs=none",
        "unix:///run/redis.sock?db=1",
        "redis+sentinel://a:26379,b:26379/mymaster/0",
        "rediss+sentinel://a:26379/mymaster",
        "redis+cluster://a:7000,b:7001",
        "rediss+cluster://a:7000",
    ],
)
def test_addresses_of_all_kinds_of_deployments_are_accepted(url):
    assert Settings(redis_url=url).redis_url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h:6379",
        "http://h",
        "redis://",
        "redis://h:99999",
        "redis://h:x",
        "redis://h/x",
        "unix://",
        "redis+cluster://",
        "redis:// h",
        "redis://h\n",
        "redis://h:0",
        "redis://h?foo=bar",
        "redis://h?socket_timeout=nan",
        "redis://h?foo",
    ],
)
def test_other_addresses_are_refused(url):
    with pytest.raises(ConfigurationError, match="DTQ_REDIS_URL cannot be used: set it to an address such as"):
        Settings(redis_url=url)


def test_a_password_in_a_wrong_address_is_not_repeated():
    (problem,) = problems_of(REDIS_URL="redis://user:hunter2@h:port")
    assert problem.startswith("REDIS_URL cannot be used")
    assert "hunter2" not in problem


def test_all_problems_are_named_at_once():
    problems = problems_of(
        DTQ_WORKER_CONCURRENCY="0",
        DTQ_LOG_JSON="maybe",
        DTQ_WORKR_QUEUES="mail",
        DTQ_HEARTBEAT_INTERVAL_S="20",
    )
    assert problems[:-1] == (
        "DTQ_WORKER_CONCURRENCY cannot be '0': set it to a whole number from 1 to 1000.",
        "DTQ_LOG_JSON cannot be 'maybe': set it to 1 or 0 (true, false, yes, no, on, off).",
        "DTQ_WORKR_QUEUES is not a setting; did you mean DTQ_WORKER_QUEUES?",
    )
    assert problems[-1].startswith(
        "DTQ_HEARTBEAT_INTERVAL_S (20) must fit 4 times into DTQ_VISIBILITY_TIMEOUT_S (30): lower"
    )


def test_a_name_like_no_setting_is_to_be_removed():
    assert problems_of(DTQ_QQQQ="1") == ("DTQ_QQQQ is not a setting; remove it.",)


def test_variables_of_other_programs_do_not_matter():
    assert Settings.from_env({"PATH": "/bin", "DTQ": "1", "DTQ_CRASH": "finalize"}) == Settings()


@pytest.mark.parametrize("name", [name for name, kind in SETTINGS.items() if kind.expects.startswith("a number")])
@pytest.mark.parametrize("written", ["nan", "inf", "-inf", "1e999", "ten", "0x10", "-1"])
def test_no_duration_or_share_is_infinite_negative_or_not_a_number(name, written):
    assert problems_of(**{variable(name): written})[0].startswith(
        f"{variable(name)} cannot be '{written}': set it to a number"
    )


@pytest.mark.parametrize("name", [name for name, kind in SETTINGS.items() if kind.expects.startswith("a whole number")])
@pytest.mark.parametrize("written", ["1.5", "-1", "1e3", "", "9" * 5000, "١٢", "1_000"])
def test_no_count_is_broken_negative_or_written_strangely(name, written):
    if written:
        assert len(problems_of(**{variable(name): written})) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("task_timeout_s", 86_400.5),
        ("max_attempts", 101),
        ("max_attempts", True),
        ("max_attempts", "3"),
        ("max_attempts", 3.0),
        ("retry_jitter", math.nan),
        ("drain_timeout_s", math.inf),
        ("worker_queues", ()),
        ("worker_queues", ["default"]),
        ("worker_queues", ("default", "default")),
        ("worker_queues", ("Mail",)),
        ("worker_queues", ("m" * 65,)),
        ("worker_queues", ("-mail",)),
        ("worker_queues", ("mail\n",)),
        ("prefix", "a{b}"),
        ("prefix", ""),
        ("prefix", "a:b"),
        ("tasks", "shop.tasks"),
        ("tasks", "shop.tasks:app; rm"),
        ("env", "staging"),
        ("log_level", "LOUD"),
        ("idem_conflict", "replace"),
        ("worker_id", "a b"),
        ("alive_file", ""),
        ("log_json", 1),
    ],
)
def test_wrong_values_are_refused_in_python_too(field, value):
    with pytest.raises(ConfigurationError, match=f"{variable(field)} cannot be"):
        dataclasses.replace(Settings(), **{field: value})


def test_the_largest_values_are_allowed():
    assert Settings(task_timeout_s=86_400, max_attempts=100, worker_queues=("m" * 64,)).max_attempts == 100


def test_four_heartbeats_fit_exactly():
    assert Settings(visibility_timeout_s=20, heartbeat_interval_s=5).heartbeat_interval_s == 5


def test_the_first_retry_delay_may_not_exceed_the_longest():
    assert "DTQ_RETRY_BASE_DELAY_S (7200)" in problems_of(DTQ_RETRY_BASE_DELAY_S="7200")[0]


def test_a_worker_may_only_serve_allowed_queues():
    (problem,) = problems_of(DTQ_QUEUES="mail,reports", DTQ_WORKER_QUEUES="mail,default")
    assert problem.startswith("DTQ_WORKER_QUEUES names default, which DTQ_QUEUES does not allow")


def test_the_settings_page_is_up_to_date():
    assert SETTINGS_PAGE.read_text() == settings_page(), "run `make docs`"
