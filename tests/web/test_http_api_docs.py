"""docs/http-api.md: its lines do what it says they do."""

import os
import re
import subprocess
from dataclasses import replace

import pytest

from tests.web.conftest import KEYS
from tests.web.web_process import ROOT, WebProcess
from webapp.api.spec import STATUS

PAGE = (ROOT / "docs" / "http-api.md").read_text()


def examples():
    """Commands with what the page says that they print."""
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for command, shown in re.findall(r"^\$ (.*?)\n(.*?)(?=^\$ |\Z)", block, re.DOTALL | re.MULTILINE):
            yield command, shown.strip()


def test_the_lines_print_what_the_page_says(tmp_path, web_settings):
    settings = replace(web_settings, api_keys=(f"ops:admin:{KEYS['admin']}",))
    with WebProcess(tmp_path, settings, key=KEYS["admin"]) as process:
        url = f"http://127.0.0.1:{process.port}/api/v1"
        environ = os.environ | {"URL": url, "AUTH": f"Authorization: Bearer {KEYS['admin']}"}
        found = list(examples())
        assert len(found) >= 15
        for command, shown in found:
            printed = subprocess.run(["bash", "-c", command], env=environ, capture_output=True, text=True, check=True)
            pattern = ".*".join(map(re.escape, shown.split("…")))
            assert re.fullmatch(pattern, printed.stdout.strip()), f"{command}\n{printed.stdout}"


@pytest.mark.parametrize("code", sorted(STATUS))
def test_every_code_is_on_the_page(code):
    assert code in PAGE or STATUS[code] >= 500
