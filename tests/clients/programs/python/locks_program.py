"""Locks of redis-py and Pottery: several processes, which increment a counter under the lock."""
import multiprocessing

import pottery
import redis
from redis.exceptions import LockNotOwnedError

from session import connect, jobs, part, run

PROCESSES = 4


def redis_lock(client):
    return client.lock("lock", timeout=30, sleep=0.002)


def pottery_lock(client):
    # The three databases stand for three servers.
    masters = {redis.Redis(port=client.get_connection_kwargs()["port"], db=db) for db in (3, 4, 5)}
    return pottery.Redlock(key="lock", masters=masters, auto_release_time=30)


def contend(make_lock, rounds, counter):
    client = connect()
    lock = make_lock(client)
    for n in range(rounds):
        lock.acquire()
        # A read and a write that aren't atomic: a second holder would lose an increment.
        before = int(client.get(counter))
        if n % 10 == 0:
            lock.extend(*((30,) if make_lock is redis_lock else ()))
        client.set(counter, before + 1)
        lock.release()


def contention(make_lock, count, counter):
    client = connect()
    client.set(counter, 0)
    rounds = -(-count // PROCESSES)
    own = [multiprocessing.Process(target=contend, args=(make_lock, rounds, counter)) for _ in range(PROCESSES)]
    for process in own:
        process.start()
    for process in own:
        process.join()
    assert [process.exitcode for process in own] == [0] * PROCESSES
    assert int(client.get(counter)) == rounds * PROCESSES, "an increment was lost: two processes held the lock"
    assert client.exists("lock") == 0


def ownership(count):
    """A lock that has ended can neither be extended nor released, and the next one stays."""
    client = connect()
    for n in range(count):
        old = client.lock(f"owned{n}", timeout=0.05)
        assert old.acquire()
        new = client.lock(f"owned{n}", timeout=30, sleep=0.01)
        assert new.acquire(blocking_timeout=60)
        assert not client.lock(f"owned{n}").acquire(blocking=False)
        for refused in (lambda: old.extend(30), old.reacquire, old.release):
            try:
                refused()
                raise SystemExit("a lock that had ended was used")
            except LockNotOwnedError:
                pass
        assert new.owned() and new.extend(30) and client.ttl(f"owned{n}") <= 60
        assert new.reacquire() and client.ttl(f"owned{n}") <= 30
        new.release()
        assert client.exists(f"owned{n}") == 0


def main():
    multiprocessing.set_start_method("fork")
    count = jobs()
    with part("redis-py Lock", count):
        contention(redis_lock, count, "first")
    with part("Pottery Redlock", count // 5):
        contention(pottery_lock, count // 5, "second")
    with part("ownership", 10):
        ownership(10)


run(main)
