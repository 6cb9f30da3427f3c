"""Ids sort by the time they were made, and do not repeat."""

import re
import time
from concurrent.futures import ThreadPoolExecutor

from dtq_engine.ids import new_id, new_token

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def test_an_id_is_a_ulid_of_this_moment():
    before = time.time_ns() // 1_000_000
    task_id = new_id()
    after = time.time_ns() // 1_000_000
    made_ms = 0
    for letter in task_id[:10]:
        made_ms = made_ms * 32 + CROCKFORD.index(letter)
    assert re.fullmatch(f"[0-7][{CROCKFORD}]{{25}}", task_id)
    assert before <= made_ms <= after


def test_ids_made_one_after_the_other_sort_in_that_order():
    ids = [new_id() for _ in range(20_000)]
    assert ids == sorted(ids)


def test_ids_made_by_many_threads_differ():
    with ThreadPoolExecutor(8) as pool:
        ids = [each for batch in pool.map(lambda _: [new_id() for _ in range(2000)], range(8)) for each in batch]
    assert len(set(ids)) == len(ids)


def test_a_token_is_128_random_bits_in_22_url_safe_characters():
    tokens = {new_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", token) for token in tokens)
