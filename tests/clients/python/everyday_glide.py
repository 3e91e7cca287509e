"""An application's use of Valkey GLIDE: prints each part that has passed. table.py has the arguments.

usage: everyday_glide.py PORT TLS_PORT CA CLUSTER_PORT
"""
import sys
import threading
import time

from glide_sync import (
    AdvancedGlideClientConfiguration, BackoffStrategy, Batch, ClientSideCache, GlideClient, GlideClientConfiguration,
    GlideClusterClient, GlideClusterClientConfiguration, GlideError, InfoSection, Logger, LogLevel, NodeAddress, Script,
    StreamAddOptions, StreamReadGroupOptions, TlsAdvancedConfiguration, TrimByMaxLen,
)

PORT, TLS_PORT, CLUSTER_PORT = (int(sys.argv[n]) for n in (1, 2, 4))
CA = sys.argv[3]
PATIENCE = 60
Channels = GlideClientConfiguration.PubSubChannelModes


def connect(**options):
    strategy = BackoffStrategy(num_of_retries=10, factor=10, exponent_base=2)
    options = {"request_timeout": 60_000, "reconnect_strategy": strategy, **options}
    return GlideClient.create(GlideClientConfiguration([NodeAddress("127.0.0.1", PORT)], **options))


def until(is_reached):
    end = time.monotonic() + PATIENCE
    while not is_reached():
        assert time.monotonic() < end, "not reached"
        time.sleep(0.01)


def shared_connection(client):
    def count():
        for _ in range(200):
            client.incr("pool")

    threads = [threading.Thread(target=count) for _ in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client.get("pool") == b"3200"


def pipeline(client):
    batch = Batch(is_atomic=False)
    for n in range(5000):
        batch.set(f"pipe:{n}", str(n))
    assert client.exec(batch, raise_on_error=True) == ["OK"] * 5000
    assert client.get("pipe:4999") == b"4999"


def transaction(client):
    client.set("account", "10")
    other = connect()
    for expected in (None, [4, b"4"]):
        client.watch(["account"])
        # The first try fails: another client changes the watched key.
        if expected is None:
            other.set("account", "5")
        assert client.exec(Batch(is_atomic=True).decr("account").get("account"), raise_on_error=True) == expected
    other.close()


def blocking_pop(client):
    popped = []
    waiter = connect()
    thread = threading.Thread(target=lambda: popped.append(waiter.blpop(["jobs"], 60)))
    thread.start()
    until(lambda: b"blocked_clients:1" in client.info([InfoSection.CLIENTS]))
    client.rpush("jobs", ["work"])
    thread.join()
    assert popped == [[b"jobs", b"work"]]
    waiter.close()


def repeat_incr(victim):
    """INCR, again after the error of a lost connection."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return victim.incr("n")
        except GlideError:
            assert time.monotonic() < end, "no connection"


def reconnection(client):
    victim = connect()
    for n in range(1, 21):
        assert client.custom_command(["CLIENT", "KILL", "ID", str(victim.client_id())]) == 1
        assert repeat_incr(victim) == n
    victim.close()


def lost_subscription(client):
    subscriptions = GlideClientConfiguration.PubSubSubscriptions({Channels.Exact: {"news"}}, None, None)
    subscriber = connect(pubsub_subscriptions=subscriptions)
    # Its connection subscribes in the background.
    until(lambda: client.publish("one", "news") == 1)
    assert subscriber.get_pubsub_message().message == b"one"
    client.custom_command(["CLIENT", "KILL", "TYPE", "pubsub"])
    # It subscribes again by itself.
    until(lambda: client.publish("two", "news") == 1)
    assert subscriber.get_pubsub_message().message == b"two"
    subscriber.close()


def streams(client):
    trim = TrimByMaxLen(exact=False, threshold=1000)
    for n in range(100):
        client.xadd("events", [("n", str(n))], StreamAddOptions(trim=trim))
    client.xgroup_create("events", "workers", "0")
    seen = []
    while batch := client.xreadgroup({"events": ">"}, "workers", "w1", StreamReadGroupOptions(count=16)):
        for entry, fields in batch[b"events"].items():
            seen.append(int(fields[0][1]))
            assert client.xack("events", "workers", [entry]) == 1
    assert seen == list(range(100)) and client.xpending("events", "workers")[0] == 0


def scripts(client):
    script = Script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    assert client.invoke_script(script, keys=["script"], args=["2"]) == 2
    # NOSCRIPT: the library loads it.
    client.script_flush()
    assert client.invoke_script(script, keys=["script"], args=["3"]) == 5


def caching(client):
    client.set("cached", "old")
    cache = ClientSideCache.create(1024, 3_600_000, enable_metrics=True, server_assisted=True)
    reader = connect(client_side_cache=cache)
    assert all(reader.get("cached") == b"old" for _ in range(100))
    assert reader.get_cache_hit_rate() > 0.9
    client.set("cached", "new")
    until(lambda: reader.get("cached") == b"new")
    reader.close()


def tls():
    with open(CA, "rb") as file:
        advanced = AdvancedGlideClientConfiguration(tls_config=TlsAdvancedConfiguration(root_pem_cacerts=file.read()))
    address = NodeAddress("localhost", TLS_PORT)
    client = GlideClient.create(GlideClientConfiguration([address], use_tls=True, advanced_config=advanced))
    assert client.set("tls", "x" * 1_000_000) == "OK" and len(client.get("tls")) == 1_000_000
    client.close()


def cluster():
    client = GlideClusterClient.create(GlideClusterClientConfiguration([NodeAddress("127.0.0.1", CLUSTER_PORT)]))
    for n in range(100):
        client.set(f"key:{n}", str(n))
    assert client.mget([f"key:{n}" for n in range(100)]) == [str(n).encode() for n in range(100)]
    client.close()


def main():
    Logger.init(LogLevel.OFF)
    client = connect()
    parts = {
        "shared connection": shared_connection, "pipeline": pipeline, "transaction": transaction,
        "blocking pop": blocking_pop, "reconnection": reconnection, "lost subscription": lost_subscription,
        "streams": streams, "scripts": scripts, "client-side caching": caching, "TLS": tls, "cluster": cluster,
    }
    for name, part in parts.items():
        part(client) if part.__code__.co_argcount else part()
        print(name, flush=True)
    print("done")


main()
