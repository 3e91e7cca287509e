"""huey: tasks with results, retries, delays and a pipeline, processed by a consumer with two workers."""
import sys

from huey_tasks import double, flaky, huey, increment
from session import assert_once, connect, jobs, part, processes, run


def main():
    with processes([[sys.executable, "-m", "huey.bin.huey_consumer", "huey_tasks.huey", "-w", "2", "-d", "0.05"]]):
        count = jobs()
        with part("tasks", count):
            results = [double(n) for n in range(count)]
            assert [result.get(blocking=True, timeout=120) for result in results] == [2 * n for n in range(count)]
            assert_once([int(n) for n in connect().lrange("double", 0, -1)], range(count))
        with part("retries", 10):
            results = [flaky(n) for n in range(10)]
            assert [result.get(blocking=True, timeout=120) for result in results] == list(range(10))
        with part("delays", 10):
            results = [double.schedule((n,), delay=1) for n in range(10)]
            assert [result.get(blocking=True, timeout=120) for result in results] == [2 * n for n in range(10)]
        with part("pipelines", 10):
            chains = [huey.enqueue(increment.s(n).then(increment).then(increment)) for n in range(10)]
            assert [chain.get(blocking=True, timeout=120) for chain in chains] == [[n + 1, n + 2, n + 3] for n in range(10)]


run(main)
