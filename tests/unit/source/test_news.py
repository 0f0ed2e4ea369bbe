"""News: what a call of Spark waits for."""

from __future__ import annotations

import threading
import time

from support.waiting import PATIENCE

from spark_stomp.source.receivers import News


def test_news_after_the_look_ends_the_wait_at_once() -> None:
    news = News()
    seen = news.latest
    news.tell()
    news.wait(seen, time.monotonic() + PATIENCE)
    assert news.latest is not seen


def test_news_ends_the_wait() -> None:
    news = News()
    seen, begun = news.latest, time.monotonic()
    timer = threading.Timer(0.05, news.tell)
    timer.start()
    news.wait(seen, float("inf"))
    assert news.latest is not seen
    assert time.monotonic() - begun < PATIENCE
    timer.join()


def test_without_news_the_wait_ends_in_time() -> None:
    news = News()
    seen, begun = news.latest, time.monotonic()
    news.wait(seen, begun + 0.05)
    assert news.latest is seen
    assert 0.05 <= time.monotonic() - begun < PATIENCE
    news.wait(seen, begun)
