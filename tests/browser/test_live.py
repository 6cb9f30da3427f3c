"""Pages that change under their reader: nothing jumps, nothing is lost, and how old they are is said."""

from playwright.sync_api import expect

from dtq_engine.model import Reschedule, Said
from dtq_engine.store.progress import pack_line
from tests.browser.test_tasks import live
from tests.store.hand import error, info
from tests.web.web_process import WebProcess


def test_focus_selection_open_details_and_typed_text_survive_500_events(page, hand):
    hand.submit("a", payload=b'{"x":{"y":[1,2,3]},"text":"' + b"x" * 3000 + b'"}', priority=1)
    page.goto("/tasks/a")
    live(page)
    reason = page.get_by_label("Reason")
    reason.fill("because of the outage")
    folded = page.locator("details.node").nth(1)
    folded.evaluate("each => each.open = false")
    reason.focus()
    reason.evaluate("each => each.setSelectionRange(3, 7)")
    for at in range(125):
        hand.submit(f"n{at}")
        hand.end(hand.claim_one())
        hand.store.control.reprioritise("a", at % 3, queue="default")
    hand.store.control.reprioritise("a", 8, queue="default")
    expect(page.locator("dl.facts dd").nth(1)).to_have_text("8", timeout=20_000)
    expect(reason).to_have_value("because of the outage")
    expect(reason).to_be_focused()
    assert reason.evaluate("each => [each.selectionStart, each.selectionEnd]") == [3, 7]
    expect(folded).not_to_have_attribute("open", "")


def test_progress_and_log_lines_come_while_one_looks_on(page, hand, store):
    claim = hand.start("a")
    page.set_viewport_size({"width": 1280, "height": 1200})
    page.goto("/tasks/a")
    live(page)
    for at in range(1, 61):
        line = (at, pack_line(1000, "INFO", "shop", f"line {at} <img src=x onerror=alert(1)>", 4096))
        store.reports.report("default", [(claim, Said((at, 60, "\u202e<b>note", 1000), (line,)))])
    bar = page.get_by_role("progressbar", name="Progress")
    expect(bar).to_have_attribute("value", "100.0")
    expect(page.locator(".title .progress")).to_contain_text("60 of 60 (100 %) \\u202e<b>note")
    expect(page.locator(".log li").last).to_be_in_viewport()
    expect(page.locator(".log li").last).to_contain_text("line 60 <img src=x onerror=alert(1)>")
    assert page.locator("main img").count() == 0


def test_a_list_shows_how_far_a_running_task_is_while_its_ticks_and_rows_stay(page, hand, store):
    claim = hand.start("a")
    hand.submit("b")
    page.goto("/tasks")
    live(page)
    row = page.locator('[id="row-default/a"]')
    page.get_by_label("Tick a", exact=True).check()
    place, when = row.bounding_box(), row.locator(".when").bounding_box()
    for at in range(1, 31):
        store.reports.report("default", [(claim, Said((at, 60, f"page {at} <img src=x>", 1000)))])
    expect(row.get_by_role("progressbar")).to_have_attribute("value", "50.0")
    expect(row.locator(".why")).to_contain_text("50 %")
    expect(row.locator(".error")).to_have_text("page 30 <img src=x>")
    expect(page.get_by_label("Tick a", exact=True)).to_be_checked()
    assert row.bounding_box() == place
    assert abs(row.locator(".when").bounding_box()["x"] - when["x"]) < 60
    hand.end(claim)
    expect(row.locator(".badge")).to_have_text("succeeded")
    expect(row.get_by_role("progressbar")).to_have_count(0)


def test_the_workers_page_shows_how_far_each_of_their_tasks_is(page, hand, store):
    store.workers.beat(info("w1", memory_kib=150 * 1024, overdue=2), 60)
    claim = hand.start("a")
    page.goto("/workers")
    live(page)
    worker = page.locator("article")
    expect(worker).to_contain_text("Memory150 MiB")
    expect(worker).to_contain_text("2 threads run on past the time limit")
    store.reports.report("default", [(claim, Said((3, None, "row 3", 1000)))])
    expect(worker.locator(".feed li")).to_contain_text("3 done row 3")
    store.reports.report("default", [(claim, Said((30, 40, "row 30", 1000)))])
    expect(worker.locator(".feed").get_by_role("progressbar")).to_have_attribute("value", "75.0")


def test_what_an_earlier_attempt_said_is_no_progress_of_the_one_that_runs(page, hand, store):
    claim = hand.start("a")
    store.reports.report("default", [(claim, Said((3, 4, "", 1000)))])
    page.goto("/tasks")
    row = page.locator('[id="row-default/a"]')
    expect(row.get_by_role("progressbar")).to_have_attribute("value", "75.0")
    hand.end(claim, Reschedule(error("try again"), 0))
    hand.claim_one()
    expect(row.locator(".n")).to_have_text("2/12")
    expect(row.locator(".badge")).to_have_text("running")
    expect(row.get_by_role("progressbar")).to_have_count(0)
    expect(row.locator(".error")).to_have_text("ValueError: try again")


def test_a_list_keeps_ticks_open_menus_and_typed_text(page, hand):
    hand.submit("a")
    hand.submit("b")
    page.goto("/tasks")
    live(page)
    page.get_by_label("Tick a", exact=True).check()
    reason = page.locator(".bulk").get_by_label("Reason")
    reason.fill("because of the outage")
    reason.evaluate("each => each.setSelectionRange(3, 7)")
    for at in range(250):
        hand.submit(f"n{at}")
        hand.submit(f"m{at}", priority=1)
    expect(page.get_by_role("link", name="50+ new – show")).to_be_visible()
    hand.end(hand.claim_one("a"))
    expect(page.locator('[id="row-default/a"] .badge')).to_have_text("succeeded")
    expect(page.get_by_label("Tick a", exact=True)).to_be_checked()
    expect(reason).to_have_value("because of the outage")
    expect(reason).to_be_focused()
    assert reason.evaluate("each => [each.selectionStart, each.selectionEnd]") == [3, 7]


def test_without_the_socket_the_page_asks_and_says_so_and_finds_back(page, hand, origin):
    page.route_web_socket("**/ws/events**", lambda socket: socket.close())
    hand.submit("a")
    page.goto("/tasks/a")
    state = page.locator("#live-state")
    expect(state).to_have_attribute("data-state", "poll")
    expect(state).to_contain_text("No live updates, asking every 5 s")
    hand.end(hand.claim_one())
    expect(page.locator("h1 .badge")).to_have_text("succeeded")
    page.unroute_all()
    page.complaints.expect("WebSocket")


def test_a_server_that_is_gone_is_said_and_the_page_goes_on_when_it_is_back(
    make_page, tmp_path, web_settings, hand, process
):
    page = make_page()
    hand.submit("a")
    page.goto("/tasks/a")
    live(page)
    page.complaints.expect("WebSocket")
    page.complaints.expect("ERR_CONNECTION_REFUSED")
    page.complaints.expect("Failed to fetch")
    process.terminate()
    expect(page.locator("#live-state")).to_have_attribute("data-state", "stale")
    expect(page.locator("#live-said")).to_have_text("The server does not answer")
    hand.end(hand.claim_one())
    with WebProcess(tmp_path, web_settings, port=process.port):
        expect(page.locator("h1 .badge")).to_have_text("succeeded", timeout=40_000)
        live(page)


def test_the_age_of_a_page_is_shown_and_grows(page, hand):
    hand.submit("a")
    page.goto("/tasks/a")
    live(page)
    expect(page.locator(".age")).to_have_text("· updated 3 s ago")
