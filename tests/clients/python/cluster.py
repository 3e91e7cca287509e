"""redis-py as a client of a cluster that changes. tests/tests/nodes/clients.rs has the orders that it takes.

usage: cluster.py PORT...
"""
import sys

from redis.backoff import ConstantBackoff
from redis.cluster import ClusterNode, RedisCluster
from redis.retry import Retry

import cluster_session


class Client:
    def __init__(self, ports):
        nodes = [ClusterNode("127.0.0.1", port) for port in ports]
        retry = Retry(ConstantBackoff(0.1), 10)
        self.redis = RedisCluster(startup_nodes=nodes, retry=retry, decode_responses=True, socket_timeout=5)

    def raise_score(self, key, score):
        self.redis.zadd(key, {"m": score}, gt=True)

    def score(self, key):
        return self.redis.zscore(key, "m")

    def pipeline(self, keys):
        with self.redis.pipeline() as pipe:
            for key in keys:
                pipe.set(key, key)
            assert pipe.execute() == [True] * len(keys)

    def other_commands(self, tag):
        self.redis.mset({tag + "a": 1, tag + "b": 2})
        assert self.redis.mget(tag + "a", tag + "b") == ["1", "2"]
        assert self.redis.eval("return server.call('get', KEYS[1])", 1, tag + "a") == "1"
        self.redis.spublish(tag, "message")


cluster_session.run("redis-py", lambda: Client([int(port) for port in sys.argv[1:]]))
