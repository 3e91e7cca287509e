"""Typical uses of redis-py: values, transactions, pub/sub, streams. Prints `done` on success.

usage: session.py PORT
"""
import sys
import threading

import redis
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection


def connect(protocol):
    return redis.Redis(port=int(sys.argv[1]), protocol=protocol, decode_responses=True)


def values(r):
    assert r.ping() is True
    assert r.set("k", "v", ex=1000) is True and r.get("k") == "v"
    assert 990 <= r.ttl("k") <= 1000
    assert r.get("none") is None and r.mget("k", "none") == ["v", None]
    assert r.set("k", "w", nx=True) is None
    assert r.incrby("n", 5) == 5 and r.incrbyfloat("f", 0.5) == 0.5
    pipe = r.pipeline(transaction=False)
    for i in range(1000):
        pipe.set(f"p{i}", i)
    assert all(pipe.execute())
    assert len(list(r.scan_iter("p*"))) == 1000
    assert r.config_get("maxmemory") == {"maxmemory": "0"}
    assert isinstance(r.client_list(), list)
    try:
        r.execute_command("GET")
        raise SystemExit("GET without a key passed")
    except redis.ResponseError as e:
        assert "wrong number of arguments" in str(e)
    assert r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1
    assert r.pfadd("visitors", "a", "b", "c") == 1 and r.pfcount("visitors") == 3
    assert r.geoadd("places", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania")) == 2
    assert r.geosearch("places", longitude=15, latitude=37, radius=200, unit="km", sort="ASC") \
        == ["Catania", "Palermo"]
    assert abs(r.geodist("places", "Palermo", "Catania", unit="km") - 166.2742) < 0.001


def transactions(r):
    r.set("balance", 10)

    def spend(pipe):
        left = int(pipe.get("balance")) - 3
        pipe.multi()
        pipe.set("balance", left)

    assert r.transaction(spend, "balance") == [True]
    assert r.get("balance") == "7"


def next_message(subscriber):
    while True:
        message = subscriber.get_message(timeout=10)
        assert message is not None, "no message"
        return message


def pubsub(r):
    subscriber = r.pubsub()
    subscriber.subscribe("news")
    subscriber.psubscribe("n?ws", "other.*")
    for count, name in enumerate(("news", "n?ws", "other.*"), 1):
        message = next_message(subscriber)
        assert message["type"].endswith("subscribe"), message
        assert (message["channel"], message["data"]) == (name, count), message
    assert r.publish("news", "hello") == 2
    assert r.publish("other.one", "there") == 1
    assert r.publish("nobody", "x") == 0
    got = [next_message(subscriber) for _ in range(3)]
    assert [(m["type"], m["channel"], m["pattern"], m["data"]) for m in got] == [
        ("message", "news", None, "hello"),
        ("pmessage", "news", "n?ws", "hello"),
        ("pmessage", "other.one", "other.*", "there"),
    ], got
    assert r.pubsub_channels() == ["news"]
    assert [tuple(pair) for pair in r.pubsub_numsub("news", "none")] == [("news", 1), ("none", 0)]
    assert r.pubsub_numpat() == 2
    subscriber.unsubscribe()
    subscriber.punsubscribe()
    for left in (2, 1, 0):
        assert next_message(subscriber)["data"] == left
    subscriber.ssubscribe("shard")
    assert next_message(subscriber)["type"] == "ssubscribe"
    assert r.spublish("shard", "of one") == 1
    subscriber.close()

    seen, handler = [], r.pubsub()
    enough = threading.Event()

    def hear(message):
        seen.append(int(message["data"]))
        if len(seen) == 1000:
            enough.set()

    handler.subscribe(numbers=hear)
    thread = handler.run_in_thread(sleep_time=0.01, daemon=True)
    while r.pubsub_numsub("numbers")[0][1] == 0:
        pass
    pipe = r.pipeline(transaction=False)
    for i in range(1000):
        pipe.publish("numbers", i)
    assert pipe.execute() == [1] * 1000
    assert enough.wait(60) and seen == list(range(1000))
    thread.stop()
    thread.join()


def streams(r):
    ids = [r.xadd("s", {"n": n, "word": "w"}, id=f"{n}-1") for n in range(1, 11)]
    assert ids == [f"{n}-1" for n in range(1, 11)]
    assert r.xlen("s") == 10
    assert r.xrange("s", "3", "(5-1") == [(f"{n}-1", {"n": str(n), "word": "w"}) for n in (3, 4)]
    assert [i for i, _ in r.xrevrange("s", count=2)] == ["10-1", "9-1"]
    assert r.xdel("s", "10-1") == 1
    assert r.xtrim("s", maxlen=8, approximate=False) == 1
    info = r.xinfo_stream("s")
    assert (info["length"], info["last-generated-id"]) == (8, "10-1"), info

    assert r.xgroup_create("s", "workers", id="0") is True
    try:
        r.xgroup_create("s", "workers", id="0")
        raise SystemExit("a group was created twice")
    except redis.ResponseError as e:
        assert "BUSYGROUP" in str(e)
    got = entries(r.xreadgroup("workers", "one", {"s": ">"}, count=3))
    assert [i for i, _ in got] == ["2-1", "3-1", "4-1"], got
    got = entries(r.xreadgroup("workers", "two", {"s": ">"}, count=2))
    assert [i for i, _ in got] == ["5-1", "6-1"], got
    assert r.xack("s", "workers", "2-1", "5-1", "9-9") == 2
    pending = r.xpending("s", "workers")
    assert (pending["pending"], pending["min"], pending["max"]) == (3, "3-1", "6-1"), pending
    pending = r.xpending_range("s", "workers", min="-", max="+", count=10)
    assert [(p["message_id"], p["consumer"], p["times_delivered"]) for p in pending] == [
        ("3-1", "one", 1), ("4-1", "one", 1), ("6-1", "two", 1)], pending
    assert [i for i, _ in r.xclaim("s", "workers", "two", 0, ["3-1"])] == ["3-1"]
    assert [i for i, _ in r.xautoclaim("s", "workers", "two", 0)[1]] == ["3-1", "4-1", "6-1"]
    assert [c["name"] for c in r.xinfo_consumers("s", "workers")] == ["one", "two"]
    group = r.xinfo_groups("s")[0]
    assert (group["pending"], group["lag"]) == (3, None), group
    assert r.xgroup_destroy("s", "workers") == 1

    # One client blocks, and another one adds an entry.
    waiter = connect(r.get_connection_kwargs()["protocol"])
    result = []
    thread = threading.Thread(target=lambda: result.append(waiter.xread({"t": "$"}, block=60_000)))
    thread.start()
    while not any("xread" == c["cmd"] and "b" in c["flags"] for c in r.client_list()):
        pass
    r.xadd("t", {"hello": "there"}, id="1-0")
    thread.join(60)
    assert entries(result[0]) == [("1-0", {"hello": "there"})], result
    waiter.close()


def entries(reply):
    """The entries of the only stream of a reply: a map in RESP3, pairs in RESP2."""
    pairs = list(reply.items()) if isinstance(reply, dict) else reply
    assert len(pairs) == 1, reply
    found = pairs[0][1]
    if found and isinstance(found[0], list):
        found = [entry for part in found for entry in part]
    return [tuple(entry) for entry in found]


def caching():
    """The library caches values, and drops them when the server invalidates them. It requires the name
    and version of Redis 7.4 for that, whatever the server supports."""
    greeting = connect(3).execute_command("HELLO")
    CacheProxyConnection.DEFAULT_SERVER_NAME = greeting["server"]
    CacheProxyConnection.MIN_ALLOWED_VERSION = greeting["version"]
    keeper = redis.Redis(
        port=int(sys.argv[1]), protocol=3, decode_responses=True, cache_config=CacheConfig(max_size=100)
    )
    other = connect(3)
    other.mset({"a": "1", "b": "1"})
    assert keeper.get("a") == "1" and keeper.mget("a", "b") == ["1", "1"]
    asked = other.info("commandstats")["cmdstat_get"]["calls"]
    for _ in range(100):
        assert keeper.get("a") == "1"
    assert other.info("commandstats")["cmdstat_get"]["calls"] == asked, "a cached read reached the server"
    for round in range(100):
        other.set("a", round)
        # The library reads invalidations when it sends the next command.
        while keeper.get("a") != str(round):
            pass
    other.flushall()
    while keeper.get("a") is not None:
        pass
    keeper.close()


def main():
    for protocol in (2, 3):
        r = connect(protocol)
        for part in (values, transactions, pubsub, streams):
            part(r)
            assert r.flushall() is True and r.dbsize() == 0
    caching()
    print("done")


main()
