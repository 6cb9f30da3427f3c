"""What needs no server: help, usage, settings, and errors as sentences."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dtq_engine.cli.root import root, run


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch):
    monkeypatch.setenv("DTQ_REDIS_URL", "redis://127.0.0.1:1/0")
    for name in ("DTQ_TASKS", "DTQ_PREFIX", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)


def every_command(group: click.Group = root, path: tuple[str, ...] = ()):
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", list(every_command()), ids=" ".join)
def test_the_help_of_every_command_has_an_example_and_offers_json_and_app(path, capsys):
    assert run([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example:" in shown
    assert f"dtq {' '.join(path)}" in shown.partition("Example:")[2]
    assert "--json" in shown
    assert "--app" in shown


def test_the_version_is_told(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("dtq ")


def test_no_redis_is_a_sentence_and_exit_code_2(capsys):
    assert run(["list"]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("Error: Redis does not answer")
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_with_json_an_error_is_a_value_too(capsys):
    assert run(["list", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "RedisUnavailable"


def test_wrong_settings_are_told_all_at_once(capsys, monkeypatch):
    monkeypatch.setenv("DTQ_PREFIX", "a b")
    monkeypatch.setenv("DTQ_WORKR_QUEUES", "x")
    assert run(["queues"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Error: 2 things are wrong:\n")
    assert "DTQ_PREFIX" in shown
    assert "did you mean DTQ_WORKER_QUEUES?" in shown


def test_an_app_that_cannot_be_loaded_is_a_sentence(capsys):
    assert run(["list", "--app", "no.such:app"]) == 2
    assert "Error: no.such:app cannot be loaded" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["lst"],
        ["status"],
        ["submit"],
        ["submit", "t", "nonsense"],
        ["submit", "t", "--delay", "soon"],
        ["submit", "t", "--run-at", "soon"],
        ["submit", "t", "--priority", "10"],
        ["submit", "t", "--file", "/dev/null"],
        ["submit", "--file", "/no/such/file"],
        ["submit", "--file", "/dev/null", "--wait"],
        ["result", "--wait", "01K8ME0V9VJ3X0D1M2Q6ZB7C5F"],
        ["list", "--status", "lost"],
        ["dlq", "requeue"],
        ["dlq", "requeue", "1", "--all"],
        ["worker"],
        ["worker", "--app", "a:b", "--concurrency", "0"],
        ["worker", "--app", "a:b", "--queues", "Not A Queue"],
        ["dev"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2_and_no_traceback(arguments, capsys):
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert "Error: " in shown.err
    assert "Traceback" not in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    "arguments", [["list", "--bogus", "--json"], ["list", "--limit", "x", "--json"], ["nothing", "--json"], ["--json"]]
)
def test_with_json_wrong_usage_is_a_value_too_wherever_it_is_asked_for(arguments, capsys):
    assert run(arguments) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "UsageError"


def test_what_only_looks_like_the_option_json_changes_nothing(capsys):
    assert run(["submit", "--bogus", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_options_of_the_program_may_come_after_the_command(monkeypatch, capsys):
    monkeypatch.setattr("dtq_engine.store.inspect.Inspect.queues", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(["queues", "--no-color", "--debug"])


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_asks_dtq(shell, capsys):
    assert run(["completion", shell]) == 0
    assert "_DTQ_COMPLETE" in capsys.readouterr().out
    assert run(["completion", shell, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["shell"], f"{shell}_complete" in shown["script"]) == (shell, True)


def test_bash_completes_commands_and_options(tmp_path):
    script = tmp_path / "complete.sh"
    dtq = tmp_path / "dtq"
    dtq.write_text(f'#!/bin/sh\nexec {sys.executable} -m dtq_engine.cli "$@"\n')
    dtq.chmod(0o755)
    script.write_text(
        "source <(dtq completion bash)\n"
        'for words in "dtq reque" "dtq requeue --sta"; do\n'
        "  COMP_WORDS=($words) COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()\n"
        "  _dtq_completion dtq\n"
        '  echo "${COMPREPLY[@]}"\n'
        "done\n"
    )
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(["bash", str(script)], env=environ, capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("requeue\n--status\n", "")


def test_an_id_after_wait_is_explained(capsys):
    run(["result", "--wait", "01K8ME0V9VJ3X0D1M2Q6ZB7C5F"])
    assert "write it before --wait" in capsys.readouterr().err


def test_ctrl_c_is_130(monkeypatch):
    def interrupted(*_args, **_kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("dtq_engine.store.inspect.Inspect.queues", interrupted)
    assert run(["queues"]) == 130


def test_a_fault_of_our_own_is_a_sentence_unless_debugging(monkeypatch, capsys):
    def broken(*_args, **_kwargs):
        raise ZeroDivisionError("\x1b[31m")

    monkeypatch.setattr("dtq_engine.store.inspect.Inspect.queues", broken)
    assert run(["queues"]) == 2
    assert r"Error: ZeroDivisionError: \x1b[31m" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        run(["--debug", "queues"])
