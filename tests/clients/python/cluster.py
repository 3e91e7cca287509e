"""redis-py as a client of a cluster that changes: writes, reads, pipelines, scripts and shard channels continue.

usage: cluster.py PORT...

Orders come as lines of standard input, and each gets a line as an answer:
  strict   from here on, no request may fail
  lenient  requests may fail; those that are acknowledged must stay
  settled  waits until each worker has succeeded again, and answers with the number of requests so far
  end      looks for all acknowledged writes and answers `done`
"""
import random
import sys
import threading
import time

import redis
from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import RedisError
from redis.retry import Retry

KEYS = 60
state = {"strict": True, "over": False}
failures = []


def connect():
    nodes = [ClusterNode("127.0.0.1", int(port)) for port in sys.argv[1:]]
    retry = Retry(ConstantBackoff(0.1), 10)
    return RedisCluster(startup_nodes=nodes, retry=retry, decode_responses=True, socket_timeout=5)


class Worker(threading.Thread):
    def __init__(self, number):
        super().__init__(daemon=True)
        self.number, self.rounds, self.failed = number, 0, 0
        self.acknowledged, self.sent = {}, {}
        self.client = connect()

    def run(self):
        while not state["over"]:
            try:
                self.step()
                self.rounds += 1
            except RedisError as error:
                self.failed += 1
                if state["strict"]:
                    failures.append(f"worker {self.number}: {error!r}")
                time.sleep(0.02)
            except Exception as error:
                failures.append(f"worker {self.number}, not an error of redis-py: {error!r}")
                return

    def step(self):
        key = f"{self.number}:{random.randrange(KEYS)}"
        self.sent[key] = value = self.sent.get(key, 0) + 1
        # A request that is repeated or comes late lowers nothing.
        self.client.zadd(key, {"m": value}, gt=True)
        self.acknowledged[key] = value
        self.check(key)
        with self.client.pipeline() as pipe:
            for n in range(10):
                pipe.set(f"{key}:{n}", n)
            assert pipe.execute() == [True] * 10
        tag = f"{{{key}}}"
        self.client.mset({tag + "a": 1, tag + "b": 2})
        assert self.client.mget(tag + "a", tag + "b") == ["1", "2"]
        assert self.client.eval("return server.call('get', KEYS[1])", 1, tag + "a") == "1"
        self.client.spublish(key, "message")
        time.sleep(0.005)

    def check(self, key):
        score = self.client.zscore(key, "m")
        if (score or 0) < self.acknowledged[key]:
            failures.append(f"{key}: {score} instead of {self.acknowledged[key]}")
            self.acknowledged[key] = score or 0


def settle(workers):
    before = [worker.rounds for worker in workers]
    end = time.monotonic() + 60
    while any(worker.rounds < old + 3 for worker, old in zip(workers, before)):
        if time.monotonic() > end or failures:
            return False
        time.sleep(0.01)
    return True


def main():
    workers = [Worker(number) for number in range(3)]
    for worker in workers:
        worker.start()
    for line in sys.stdin:
        order = line.strip()
        if order in ("strict", "lenient"):
            state["strict"] = order == "strict"
            print("ok", flush=True)
        elif order == "settled":
            is_settled = settle(workers)
            total = sum(worker.rounds for worker in workers), sum(worker.failed for worker in workers)
            print(total if is_settled and not failures else f"failed: {failures[:5]} {total}", flush=True)
        elif order == "end":
            state["over"] = True
            for worker in workers:
                worker.join()
                for key in list(worker.acknowledged):
                    worker.check(key)
            print("done" if not failures else f"failed: {failures[:5]}", flush=True)


main()
