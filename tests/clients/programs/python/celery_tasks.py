"""The tasks of celery_program.py, which the worker imports."""
import os

import redis
from celery import Celery

URL = f"redis://127.0.0.1:{os.environ['SESSION_PORT']}"
app = Celery("tasks", broker=f"{URL}/0", backend=f"{URL}/1")
app.conf.update(broker_connection_retry_on_startup=True, task_acks_late=True, worker_prefetch_multiplier=4)

# A database of its own, so that it shares no key with Celery.
runs = redis.Redis.from_url(f"{URL}/2")


@app.task
def double(n):
    runs.rpush("double", n)
    return 2 * n


@app.task(bind=True, max_retries=3)
def fail_once(self, n):
    runs.rpush("fail_once", n)
    if self.request.retries == 0:
        raise self.retry(countdown=0)
    return n


@app.task
def total(numbers):
    runs.rpush("total", len(numbers))
    return sum(numbers)
