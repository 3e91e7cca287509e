"""The tasks of huey_program.py, which its consumer imports, too."""
from huey import RedisHuey

from session import PORT, connect

# By default, the error of an attempt that is retried is a result, too.
huey = RedisHuey("weft", host="127.0.0.1", port=PORT, store_intermediate_errors=False)


@huey.task()
def double(n):
    connect().rpush("double", n)
    return 2 * n


@huey.task(retries=3, retry_delay=1)
def flaky(n):
    """Fails at the first try."""
    assert connect().incr(f"tries:{n}") > 1
    return n


@huey.task()
def increment(n):
    return n + 1
