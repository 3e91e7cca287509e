"""The actors of dramatiq_program.py, which its workers import, too."""
import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from session import PORT, connect

broker = RedisBroker(host="127.0.0.1", port=PORT)
broker.add_middleware(Results(backend=RedisBackend(host="127.0.0.1", port=PORT), store_results=True))
dramatiq.set_broker(broker)


@dramatiq.actor
def double(n):
    connect().rpush("double", n)
    return 2 * n


@dramatiq.actor(min_backoff=100, max_backoff=200)
def flaky(n):
    """Fails at the first try."""
    assert connect().incr(f"tries:{n}") > 1
    return n


@dramatiq.actor
def increment(n):
    return n + 1
