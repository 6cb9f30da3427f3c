"""Cron expressions in plain English."""

import pytest

from webapp.pages.cron import cron_in_words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("5 * * * *", "every hour at :05"),
        ("0,30 * * * *", "every hour at :00 and :30"),
        ("0 3 * * *", "every day at 03:00"),
        ("30 9,17 * * *", "every day at 09:30 and 17:30"),
        ("15 */6 * * *", "every 6 hours at :15"),
        ("30 9 * * 1-5", "at 09:30, on Monday to Friday"),
        ("0 8 * * MON,WED,7", "at 08:00, on Monday, Wednesday and Sunday"),
        ("0 0 1 * *", "at 00:00, on day 1 of the month"),
        ("0 0 L * *", "at 00:00, on the last day of the month"),
        ("0 0 1,15 * 5", "at 00:00, on day 1, 15 of the month or on Friday"),
        ("0 6 * JAN-MAR *", "every day at 06:00 in January to March"),
        ("0 6 24 12 *", "at 06:00, on day 24 of the month in December"),
        ("1-5 2/3 * * *", "every day at minute 1-5 of hour 2/3"),
        ("0 0 * * 1#2", "at 00:00, on weekday 1#2"),
        ("0 0 * 13 *", "every day at 00:00 in month 13"),
        ("no cron", "no cron"),
        ("", ""),
    ],
)
def test_an_expression_in_words(expression, words):
    assert cron_in_words(expression) == words
