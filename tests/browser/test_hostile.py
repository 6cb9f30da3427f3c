"""Pages full of what no one would name anything: they stay whole, harmless and usable."""

import itertools
import json

import pytest

from dtq_engine import workflow
from dtq_engine.limits import Declared, Limit, Numbers
from dtq_engine.model import AttemptError, DeadLetter, NewTask, Parent, Said
from dtq_engine.store.progress import pack_line
from tests.browser.chromium import barriers, unfold
from tests.store.hand import Hand

EVIL = "<img src=x onerror=alert(1)> javascript:alert(2) \u202egnp.exe \x00\x1b[31m {{7*7}} %s \U0001f600 " + "W" * 300
QUEUE, TYPE, ID = "q" * 64, "t" * 128, "i" * 64
PLACES = [
    f"/tasks/{ID}?queue={QUEUE}",
    f"/tasks/dead?queue={QUEUE}",
    f"/tasks/last?queue={QUEUE}",
    f"/queues/{QUEUE}",
    "/tasks",
    f"/tasks?q=queue:{QUEUE}",
    "/tasks?q=%3Cimg%20src%3Dx%20onerror%3D1%3E+status:" + "W" * 300,
    "/dead-letters",
    "/queues",
    "/activity",
    "/system",
    "/",
]

STRANGE = """() => [...document.querySelectorAll("main img, main script, [onerror], [style]")]
    .map((each) => each.outerHTML)
    .concat([...document.links].map((each) => each.href).filter((href) => !href.startsWith(location.origin)))"""


@pytest.fixture
def evil(store):
    """A queue in which every name and text is as bad as it may be."""
    store.workers.register_queue(QUEUE)
    limit = "L" * 64
    store.limits.declare(QUEUE, Declared((Limit(limit, Numbers(1)),), {limit: QUEUE}))
    store.limits.set(QUEUE, limit, max_running=2, actor=EVIL[:100], reason=EVIL[:400])
    hand = Hand(store, EVIL[:28] + "x" * 90, [TYPE], QUEUE)
    payload = json.dumps({EVIL: [EVIL, "s" * 200_000], "__proto__": {"constructor": 10**30}}).encode()
    claim = hand.start(
        ID, type=TYPE, payload=payload, headers={EVIL[:30]: EVIL[:99]}, idempotency_key="<b>" * 80, limits=(limit,)
    )
    levels = ("INFO", "<b>" * 30, "ERROR", "WARNING")
    lines = [
        (at, pack_line(1000, level, "<b>" * 30, EVIL + "\n" + "x" * 3000, 4096)) for at, level in enumerate(levels, 5)
    ]
    store.reports.report(QUEUE, [(claim, Said((3, 7, EVIL, 1000), tuple(lines)))])
    store.steps.save(claim, "s" + EVIL[:120], b"1")
    ended = hand.start("dead", type=TYPE)
    error = AttemptError(EVIL[:100], EVIL, EVIL * 9, 1, EVIL[:100], 1, 2)
    hand.end(ended, DeadLetter(error, EVIL[:100]))
    parents = tuple(Parent(f"part{at}", QUEUE) for at in range(20))
    chain = [NewTask(id=each.id, type=TYPE, queue=QUEUE) for each in parents[:1]]
    for before, each in itertools.pairwise(parents):
        chain.append(NewTask(id=each.id, type=TYPE, queue=QUEUE, after=(before,)))
    chain.append(NewTask(id="last", type=TYPE, queue=QUEUE, after=parents[-1:]))
    for batch in workflow.batches(chain):
        store.intake.submit(batch)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_breaks_by_what_is_in_it(make_page, evil, theme):
    page = make_page(color_scheme=theme, reduced_motion="reduce")
    found = {}
    for address in PLACES:
        page.goto(address)
        for width in (360, 1280, 1920):
            page.set_viewport_size({"width": width, "height": 800})
            found[address, width] = page.evaluate("document.documentElement.scrollWidth") - width
        found[address, "strange"] = page.evaluate(STRANGE)
        unfold(page)
        found[address, "barriers"] = barriers(page)
    assert {place: each for place, each in found.items() if each and each != 0} == {}
