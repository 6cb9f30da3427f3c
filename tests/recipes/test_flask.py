"""Flask: handlers run inside the application context, and views submit them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dtq_engine import Dtq
from tests.recipes.conftest import Cook
from tests.support.environ import environ_of

VIEW = """
import json
from flask_tasks import web
answer = web.test_client().post("/welcome/ann")
print(json.dumps([answer.status_code, answer.json]))
"""
MORE = """
@app.task("mail.send.async")
async def send_async(to: str) -> str:
    await asyncio.sleep(0)
    return current_app.name
"""


@pytest.mark.drains
def test_a_view_submits_and_handlers_see_the_application(app: Dtq, cook: Cook, tmp_path: Path) -> None:
    cook("flask_tasks", MORE)
    ran = subprocess.run(
        [sys.executable, "-c", VIEW], cwd=tmp_path, env=environ_of(app.settings), capture_output=True, text=True
    )
    code, body = json.loads(ran.stdout)
    assert code == 202
    assert app.handle(body["task"]).result(timeout=10) == "from shop@example.com to ann"
    assert app.named("mail.send.async").submit(to="ann").result(timeout=10) == "shop"
