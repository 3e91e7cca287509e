"""dramatiq: messages with results, retries, delays, a group and a pipeline, processed by two processes."""
import sys

import dramatiq

from dramatiq_tasks import double, flaky, increment
from session import assert_once, connect, jobs, part, processes, run

PATIENCE_MS = 120_000


def main():
    with processes([[sys.executable, "-m", "dramatiq", "dramatiq_tasks", "--processes", "2", "--threads", "2"]]):
        count = jobs()
        with part("messages", count):
            group = dramatiq.group([double.message(n) for n in range(count)]).run()
            assert list(group.get_results(block=True, timeout=PATIENCE_MS)) == [2 * n for n in range(count)]
            assert_once([int(n) for n in connect().lrange("double", 0, -1)], range(count))
        with part("retries", 10):
            messages = [flaky.send(n) for n in range(10)]
            assert [m.get_result(block=True, timeout=PATIENCE_MS) for m in messages] == list(range(10))
        with part("delays", 10):
            messages = [double.send_with_options(args=(n,), delay=500) for n in range(10)]
            assert [m.get_result(block=True, timeout=PATIENCE_MS) for m in messages] == [2 * n for n in range(10)]
        with part("pipelines", 10):
            pipes = [dramatiq.pipeline([increment.message(n), increment.message()]).run() for n in range(10)]
            assert [p.get_result(block=True, timeout=PATIENCE_MS) for p in pipes] == [n + 2 for n in range(10)]


run(main)
