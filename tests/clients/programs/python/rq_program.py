"""RQ: jobs with results, retries, delays and dependencies, processed by two workers."""
import datetime
import os
import sys
import time

import redis
from rq import Queue, Retry

from session import PORT, assert_once, connect, jobs, part, processes, run

URL = f"redis://127.0.0.1:{PORT}"


def until(is_done):
    while not is_done():
        time.sleep(0.02)


def finish(queue, own):
    """Waits until all jobs have finished, and returns their results."""
    # Registries first, since they are cheap to ask.
    until(lambda: queue.is_empty() and queue.started_job_registry.count == 0)
    until(lambda: all(job.is_finished or job.is_failed for job in fetch(queue, own)))
    assert queue.failed_job_registry.count == 0, "failed jobs"
    return [job.return_value() for job in fetch(queue, own)]


def fetch(queue, own):
    return queue.job_class.fetch_many([job.id for job in own], connection=queue.connection)


def many(queue, count):
    prepared = [queue.prepare_data("rq_tasks.double", args=(n,), result_ttl=3600) for n in range(count)]
    own = queue.enqueue_many(prepared)
    assert finish(queue, own) == [2 * n for n in range(count)]
    seen = [int(n) for n in connect(2).lrange("double", 0, -1)]
    assert_once(seen, range(count))
    connect(2).delete("double")


def retries(queue, count):
    own = [queue.enqueue("rq_tasks.fail_once", n, retry=Retry(max=2)) for n in range(count)]
    assert finish(queue, own) == list(range(count))
    attempts = connect(2).hgetall("attempts")
    assert attempts == {str(n): "2" for n in range(count)}, attempts


def delays(queue, count):
    own = [queue.enqueue_in(datetime.timedelta(seconds=1), "rq_tasks.double", n) for n in range(count)]
    assert finish(queue, own) == [2 * n for n in range(count)]
    assert_once([int(n) for n in connect(2).lrange("double", 0, -1)], range(count))


def dependencies(queue, count):
    """Each job runs after the one before it, although two workers take jobs."""
    own = []
    for n in range(count):
        own.append(queue.enqueue("rq_tasks.after", n, depends_on=own[-1] if own else None))
    assert finish(queue, own) == list(range(count))


def main():
    count = jobs()
    connection = redis.Redis(port=PORT)
    queue = Queue("plain", connection=connection)
    program = os.path.join(os.path.dirname(sys.executable), "rq")
    worker = [program, "worker", "--url", URL, "--worker-class", "rq.SimpleWorker", "--with-scheduler", "--quiet"]
    with processes([[*worker, "--name", f"worker{n}", "plain"] for n in range(2)]):
        # The start of the workers isn't measured.
        until(lambda: len(connection.smembers("rq:workers")) == 2)
        with part("tasks", count):
            many(queue, count)
        with part("retries", count // 10):
            retries(queue, count // 10)
        with part("delays", count // 10):
            delays(queue, count // 10)
        with part("dependencies", count // 10):
            dependencies(queue, count // 10)


run(main)
