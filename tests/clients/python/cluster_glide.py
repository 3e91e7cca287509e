"""Valkey GLIDE as a client of a cluster that changes. tests/tests/nodes/clients.rs has the orders that it takes.

usage: cluster_glide.py PORT...
"""
import sys

from glide_sync import (
    BatchRetryStrategy, ClusterBatch, ClusterBatchOptions, GlideClusterClient,
    GlideClusterClientConfiguration, Logger, LogLevel, NodeAddress, UpdateOptions,
)

import cluster_session


class Client:
    def __init__(self, ports):
        nodes = [NodeAddress("127.0.0.1", port) for port in ports]
        self.glide = GlideClusterClient.create(GlideClusterClientConfiguration(nodes, request_timeout=5000))

    def raise_score(self, key, score):
        self.glide.zadd(key, {"m": score}, update_condition=UpdateOptions.GREATER_THAN)

    def score(self, key):
        return self.glide.zscore(key, "m")

    def pipeline(self, keys):
        batch = ClusterBatch(is_atomic=False)
        for key in keys:
            batch.set(key, key)
        retry = BatchRetryStrategy(retry_server_error=True, retry_connection_error=True)
        replies = self.glide.exec(batch, raise_on_error=True, options=ClusterBatchOptions(retry_strategy=retry))
        assert replies == ["OK"] * len(keys), replies

    def other_commands(self, tag):
        assert self.glide.mset({tag + "a": "1", tag + "b": "2"}) == "OK"
        assert self.glide.mget([tag + "a", tag + "b"]) == [b"1", b"2"]
        script = ["EVAL", "return server.call('get', KEYS[1])", "1", tag + "a"]
        assert self.glide.custom_command(script) == b"1"
        self.glide.publish("message", tag, sharded=True)


Logger.set_logger_config(LogLevel.OFF)
cluster_session.run("glide", lambda: Client([int(port) for port in sys.argv[1:]]))
