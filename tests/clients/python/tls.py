"""TLS sessions of redis-py. tests/tests/tls/libraries.rs has the requests that it reads.

usage: tls.py FOLDER
"""
import faulthandler
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

MESSAGES = 100
PATIENCE = 60
folder = sys.argv[1]
options, client = {}, None


def open_client(**more):
    return redis.Redis(
        host="localhost", ssl=True, decode_responses=True, retry=Retry(NoBackoff(), 0), **options, **more)


def connect(port, ca, certificate, user, password):
    global options, client
    if client:
        client.close()
    options = {"port": int(port), "ssl_ca_certs": f"{folder}/{ca}.crt"}
    if certificate != "-":
        options |= {"ssl_certfile": f"{folder}/{certificate}.crt", "ssl_keyfile": f"{folder}/{certificate}.key"}
    if user != "-":
        options |= {"username": user, "password": password}
    client = open_client()
    return client.execute_command("ACL", "WHOAMI")


def write(key):
    return "OK" if client.set(key, "value") else "nothing"


def session():
    pipe = client.pipeline(transaction=False)
    for n in range(1000):
        pipe.rpush("redis-py:list", n)
    assert pipe.execute() == list(range(1, 1001))
    large = "0123456789abcdef" * 65536
    assert client.set("redis-py:large", large) and client.get("redis-py:large") == large
    pipe = client.pipeline()
    pipe.incr("redis-py:n")
    pipe.incrby("redis-py:n", 41)
    assert pipe.execute() == [1, 42]
    subscribe()
    block()
    client.delete("redis-py:list", "redis-py:large", "redis-py:n")
    return "OK"


def subscribe():
    subscriber = client.pubsub()
    subscriber.subscribe("redis-py")
    assert subscriber.get_message(timeout=PATIENCE)["type"] == "subscribe"
    for n in range(MESSAGES):
        assert client.publish("redis-py", n) == 1
    messages = [subscriber.get_message(timeout=PATIENCE)["data"] for _ in range(MESSAGES)]
    assert messages == [str(n) for n in range(MESSAGES)], messages
    subscriber.close()


def block():
    popped = []
    waiter = open_client(client_name="redis-py")
    thread = threading.Thread(target=lambda: popped.append(waiter.blpop("redis-py:queue", PATIENCE)))
    thread.start()
    while not any(c["name"] == "redis-py" and "b" in c["flags"] for c in client.client_list()):
        pass
    client.rpush("redis-py:queue", "element")
    thread.join()
    assert tuple(popped[0]) == ("redis-py:queue", "element"), popped
    waiter.close()


def again():
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return write("again")
        except redis.ConnectionError:
            if time.monotonic() > end:
                raise


def main():
    faulthandler.dump_traceback_later(3 * PATIENCE, exit=True)
    requests = {"connect": connect, "set": write, "session": session, "again": again}
    for line in sys.stdin:
        name, *words = line.split()
        try:
            reply = requests[name](*words)
        except Exception as e:
            reply = f"error {type(e).__name__} {e} {e.__cause__ or ''}"
        print(" ".join(str(reply).split()), flush=True)


main()
