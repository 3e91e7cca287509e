"""An application's use of redis-py: prints each part that has passed. table.py has the arguments.

usage: everyday.py PORT TLS_PORT CA CLUSTER_PORT
"""
import sys
import threading
import time

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

PORT, TLS_PORT, CLUSTER_PORT = (int(sys.argv[n]) for n in (1, 2, 4))
CA = sys.argv[3]


def pool():
    connections = redis.BlockingConnectionPool(port=PORT, max_connections=4, timeout=30)
    client = redis.Redis(connection_pool=connections)

    def count():
        for _ in range(200):
            client.incr("pool")

    threads = [threading.Thread(target=count) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client.get("pool") == b"3200"


def pipeline(client):
    with client.pipeline(transaction=False) as pipe:
        for n in range(5000):
            pipe.set(f"pipe:{n}", n)
        assert all(pipe.execute())
    assert client.get("pipe:4999") == "4999"


def transaction(client):
    client.set("account", 10)
    other = redis.Redis(port=PORT)
    runs = []

    def spend(pipe):
        left = int(pipe.get("account")) - 1
        # The first try fails: another client changes the watched key.
        if not runs:
            other.set("account", 5)
        runs.append(left)
        pipe.multi()
        pipe.set("account", left)

    client.transaction(spend, "account")
    assert runs == [9, 4] and client.get("account") == "4"


def blocking_pop(client):
    popped = []
    waiter = redis.Redis(port=PORT, decode_responses=True)
    thread = threading.Thread(target=lambda: popped.append(waiter.blpop("jobs", timeout=60)))
    thread.start()
    while client.info("clients")["blocked_clients"] == 0:
        time.sleep(0.01)
    client.rpush("jobs", "work")
    thread.join()
    assert popped == [("jobs", "work")]


def reconnection(client):
    victim = redis.Redis(port=PORT, retry=Retry(ConstantBackoff(0.05), 5))
    victim.set("n", 1)
    for _ in range(20):
        client.client_kill_filter(_id=victim.client_id())
        assert victim.incr("n")
    assert victim.get("n") == b"21"


def lost_subscription(client):
    subscriber = redis.Redis(port=PORT, decode_responses=True, retry=Retry(ConstantBackoff(0.05), 5)).pubsub()
    subscriber.subscribe("news")
    assert subscriber.get_message(timeout=10)["type"] == "subscribe"
    client.publish("news", "one")
    assert subscriber.get_message(timeout=10)["data"] == "one"
    client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
    # It subscribes again by itself.
    assert subscriber.get_message(timeout=10)["type"] == "subscribe"
    assert client.publish("news", "two") == 1
    assert subscriber.get_message(timeout=10)["data"] == "two"
    subscriber.close()


def streams(client):
    for n in range(100):
        client.xadd("events", {"n": n}, maxlen=1000, approximate=True)
    client.xgroup_create("events", "workers", id="0")
    seen = []
    while batch := client.xreadgroup("workers", "w1", {"events": ">"}, count=16):
        for entry, fields in batch[0][1]:
            seen.append(int(fields["n"]))
            assert client.xack("events", "workers", entry) == 1
    assert seen == list(range(100)) and client.xpending("events", "workers")["pending"] == 0


def scripts(client):
    script = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert script(keys=["script"], args=[2]) == 2
    # NOSCRIPT: the library loads it.
    client.script_flush()
    assert script(keys=["script"], args=[3]) == 5


def tls():
    client = redis.Redis("localhost", TLS_PORT, ssl=True, ssl_ca_certs=CA, decode_responses=True)
    assert client.set("tls", "x" * 1_000_000) and len(client.get("tls")) == 1_000_000


def cluster():
    client = redis.RedisCluster("127.0.0.1", CLUSTER_PORT, decode_responses=True)
    for n in range(100):
        client.set(f"key:{n}", n)
    assert client.mget_nonatomic([f"key:{n}" for n in range(100)]) == [str(n) for n in range(100)]


def main():
    client = redis.Redis(port=PORT, decode_responses=True)
    parts = {
        "pool": pool, "pipeline": pipeline, "transaction": transaction, "blocking pop": blocking_pop,
        "reconnection": reconnection, "lost subscription": lost_subscription, "streams": streams, "scripts": scripts,
        "TLS": tls, "cluster": cluster,
    }
    for name, part in parts.items():
        part(client) if part.__code__.co_argcount else part()
        print(name, flush=True)
    print("done")


main()
