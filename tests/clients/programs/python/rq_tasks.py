"""The tasks of rq_program.py, which the workers import."""
import os

import redis

# A database of its own, so that it shares no key with RQ.
runs = redis.Redis(port=int(os.environ["SESSION_PORT"]), db=2)


def double(n):
    runs.rpush("double", n)
    return 2 * n


def fail_once(n):
    if runs.hincrby("attempts", n, 1) == 1:
        raise ValueError("first attempt")
    return n


def after(n):
    assert runs.sismember("finished", n - 1) or n == 0
    runs.sadd("finished", n)
    return n
