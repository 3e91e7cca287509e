"""Celery: tasks with results, retries, delays, chains and chords, with Redis as broker and result backend."""
import os
import sys

from session import PORT, assert_once, connect, jobs, part, processes, run

os.environ["SESSION_PORT"] = str(PORT)
from celery import chain, chord, group  # noqa: E402
from celery_tasks import app, double, fail_once, total  # noqa: E402

PATIENCE = 120


def seen(name):
    return [int(n) for n in connect(2).lrange(name, 0, -1)]


def tasks(count):
    results = [double.delay(n) for n in range(count)]
    assert [result.get(timeout=PATIENCE) for result in results] == [2 * n for n in range(count)]
    assert_once(seen("double"), range(count))
    connect(2).delete("double")


def retries(count):
    results = group(fail_once.s(n) for n in range(count))()
    assert results.get(timeout=PATIENCE) == list(range(count))
    assert sorted(seen("fail_once")) == sorted([*range(count), *range(count)])


def delays(count):
    results = [double.apply_async((n,), countdown=0.2 + (n * 7919) % 5 / 10) for n in range(count)]
    assert [result.get(timeout=PATIENCE) for result in results] == [2 * n for n in range(count)]
    assert_once(seen("double"), range(count))
    connect(2).delete("double")


def chords(count):
    """Chords of ten tasks: the last task runs once, with the results of all."""
    results = [chord(double.s(n) for n in range(m, m + 10))(total.s()) for m in range(0, count, 10)]
    expected = [2 * sum(range(m, m + 10)) for m in range(0, count, 10)]
    assert [result.get(timeout=PATIENCE) for result in results] == expected
    assert seen("total") == [10] * len(results)
    assert chain(double.s(1), double.s(), double.s())().get(timeout=PATIENCE) == 8


def main():
    count = jobs()
    worker = [sys.executable, "-m", "celery", "--app", "celery_tasks", "worker", "--concurrency", "2", "--loglevel", "ERROR"]
    with processes([worker]):
        # The start of the worker isn't measured.
        assert double.delay(0).get(timeout=PATIENCE) == 0
        connect(2).delete("double")
        with part("tasks", count):
            tasks(count)
        with part("retries", count // 10):
            retries(count // 10)
        with part("delays", count // 10):
            delays(count // 10)
        with part("chords", count // 10):
            chords(count // 10)
        assert app.control.inspect().active_queues(), "the worker answers"
    broker = connect(0)
    assert broker.llen("celery") == 0 and broker.hlen("unacked") == 0, "the broker keeps nothing"


run(main)
