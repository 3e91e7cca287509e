import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.time.Duration;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RBucket;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RMapCache;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Redisson: locks with a watchdog, maps with expiry, rate limiters, semaphores and delayed queues. */
public final class RedissonProgram {
    private static final int CLIENTS = 2;
    private static final int THREADS = 8;
    private static final long WATCHDOG_MS = 3000;

    private interface Lock {
        RLock of(RedissonClient client);
    }

    private static RedissonClient connect() {
        Config config = new Config();
        config.setLockWatchdogTimeout(WATCHDOG_MS);
        config.setThreads(4).setNettyThreads(4);
        config.useSingleServer().setAddress("redis://127.0.0.1:" + Program.port)
                .setConnectionMinimumIdleSize(4).setConnectionPoolSize(16);
        return Redisson.create(config);
    }

    /** Threads of all clients increment a counter under the lock, by a read and a write that aren't atomic. */
    private static void contend(RedissonClient[] clients, Lock lock, String counter, int count) throws Exception {
        RBucket<String> shared = clients[0].getBucket(counter, StringCodec.INSTANCE);
        shared.set("0");
        AtomicInteger holders = new AtomicInteger();
        int rounds = (count + THREADS - 1) / THREADS;
        Program.onThreads(THREADS, thread -> {
            RedissonClient client = clients[thread % CLIENTS];
            RLock own = lock.of(client);
            RBucket<String> bucket = client.getBucket(counter, StringCodec.INSTANCE);
            for (int n = 0; n < rounds; n++) {
                own.lock();
                Program.equal(holders.incrementAndGet(), 1, "holders");
                if (n % 8 == 0) {
                    own.lock();
                    Program.equal(own.getHoldCount(), 2, "hold count");
                    own.unlock();
                }
                bucket.set(String.valueOf(Integer.parseInt(bucket.get()) + 1));
                holders.decrementAndGet();
                own.unlock();
            }
        });
        Program.equal(shared.get(), String.valueOf(rounds * THREADS), counter);
        Program.check(!lock.of(clients[0]).isLocked(), "the lock is free at the end");
    }

    /** A held lock outlives its timeout; the lock of a client that is gone ends. */
    private static void watchdog(RedissonClient[] clients) throws Exception {
        RLock held = clients[0].getLock("watched");
        RLock other = clients[1].getLock("watched");
        held.lock();
        Thread.sleep(WATCHDOG_MS * 4 / 3);
        Program.check(!other.tryLock(), "the watchdog keeps the lock");
        Program.check(held.isHeldByCurrentThread(), "the holder keeps the lock");
        held.unlock();
        Program.check(other.tryLock(), "a released lock is free");
        other.unlock();
        RedissonClient gone = connect();
        gone.getLock("watched").lock();
        gone.shutdown(0, 0, TimeUnit.SECONDS);
        other.lock();
        Program.check(other.isHeldByCurrentThread(), "the lock of the client that is gone has ended");
        other.unlock();
    }

    private static void readersAndWriters(RedissonClient[] clients, int count) throws Exception {
        AtomicInteger readers = new AtomicInteger();
        AtomicInteger writers = new AtomicInteger();
        int rounds = (count + THREADS - 1) / THREADS;
        Program.onThreads(THREADS, thread -> {
            RReadWriteLock lock = clients[thread % CLIENTS].getReadWriteLock("readwrite");
            boolean writes = thread < 2;
            RLock own = writes ? lock.writeLock() : lock.readLock();
            for (int n = 0; n < rounds; n++) {
                own.lock();
                int now = (writes ? writers : readers).incrementAndGet();
                Program.check(writes ? now == 1 && readers.get() == 0 : writers.get() == 0, "a writer is alone");
                (writes ? writers : readers).decrementAndGet();
                own.unlock();
            }
        });
    }

    private static void map(RedissonClient[] clients, int count) throws Exception {
        int rounds = (count + THREADS - 1) / THREADS;
        Program.onThreads(THREADS, thread -> {
            RedissonClient client = clients[thread % CLIENTS];
            RMap<String, Integer> map = client.getMap("map");
            for (int n = 0; n < rounds; n++) {
                String key = thread + ":" + n;
                Program.check(map.putIfAbsent(key, n) == null, "a new key");
                Program.equal(map.putIfAbsent(key, -1), n, "an old key");
                Program.equal(map.put(key, n + 1), n, "the old value");
                Program.check(map.replace(key, n + 1, n), "replaced");
                Program.check(!map.remove(key, n + 1), "another value isn't removed");
                client.<String, Integer>getMap("sums", StringCodec.INSTANCE).addAndGet("sum", 1);
            }
        });
        RMap<String, Integer> map = clients[0].getMap("map");
        Map<String, Integer> expected = new HashMap<>();
        for (int thread = 0; thread < THREADS; thread++) {
            for (int n = 0; n < rounds; n++) expected.put(thread + ":" + n, n);
        }
        Program.equal(map.readAllMap(), expected, "the map");
        Object sum = clients[0].getMap("sums", StringCodec.INSTANCE).get("sum");
        Program.equal(sum, String.valueOf(rounds * THREADS), "the sum");
    }

    private static void mapCache(RedissonClient[] clients, int count) throws Exception {
        RMapCache<Integer, String> cache = clients[0].getMapCache("cache");
        for (int n = 0; n < count; n++) {
            if (n % 2 == 0) cache.put(n, "v" + n, 1, TimeUnit.SECONDS);
            else cache.put(n, "v" + n, 1, TimeUnit.HOURS);
        }
        RMapCache<Integer, String> other = clients[1].getMapCache("cache");
        for (int n = 0; n < count; n++) {
            int key = n;
            if (n % 2 == 0) Program.until(() -> other.get(key) == null);
            else Program.equal(other.get(n), "v" + n, "an entry that lives");
        }
        RMapCache<Integer, String> bounded = clients[0].getMapCache("bounded");
        bounded.setMaxSize(10);
        for (int n = 0; n < 30; n++) bounded.fastPut(n, "v");
        Program.equal(bounded.size(), 10, "entries of the bounded map");
    }

    private static void limits(RedissonClient[] clients, int count) throws Exception {
        for (int round = 0; round < count; round += 100) {
            String name = "limit" + round;
            clients[0].getRateLimiter(name).trySetRate(RateType.OVERALL, 40, Duration.ofHours(1));
            AtomicInteger allowed = new AtomicInteger();
            Program.onThreads(4, thread -> {
                RRateLimiter limiter = clients[thread % CLIENTS].getRateLimiter(name);
                for (int n = 0; n < 25; n++) if (limiter.tryAcquire()) allowed.incrementAndGet();
            });
            Program.equal(allowed.get(), 40, "allowed requests");
        }
    }

    private static void semaphore(RedissonClient[] clients, int count) throws Exception {
        clients[0].getSemaphore("semaphore").trySetPermits(3);
        AtomicInteger holders = new AtomicInteger();
        int rounds = (count + THREADS - 1) / THREADS;
        RCountDownLatch latch = clients[0].getCountDownLatch("latch");
        latch.trySetCount(THREADS);
        Program.onThreads(THREADS, thread -> {
            RedissonClient client = clients[thread % CLIENTS];
            RSemaphore semaphore = client.getSemaphore("semaphore");
            for (int n = 0; n < rounds; n++) {
                semaphore.acquire();
                Program.check(holders.incrementAndGet() <= 3, "at most three holders");
                holders.decrementAndGet();
                semaphore.release();
            }
            client.getCountDownLatch("latch").countDown();
            client.getCountDownLatch("latch").await();
        });
        Program.equal(clients[0].getSemaphore("semaphore").availablePermits(), 3, "permits");
        Program.equal(latch.getCount(), 0L, "the latch");
    }

    private static void delayedQueue(RedissonClient[] clients, int count) throws Exception {
        RBlockingQueue<Integer> target = clients[0].getBlockingQueue("due");
        RDelayedQueue<Integer> delayed = clients[0].getDelayedQueue(target);
        for (int n = 0; n < count; n++) delayed.offer(n, 200 + (n * 7919) % 500, TimeUnit.MILLISECONDS);
        boolean[] seen = new boolean[count];
        RBlockingQueue<Integer> reader = clients[1].getBlockingQueue("due");
        for (int n = 0; n < count; n++) {
            int value = reader.take();
            Program.check(!seen[value], "delivered twice: " + value);
            seen[value] = true;
        }
        Program.check(delayed.isEmpty() && target.isEmpty(), "the queues are empty");
        delayed.destroy();
    }

    public static void main(String[] args) {
        Program.run(args, () -> {
            RedissonClient[] clients = {connect(), connect()};
            int jobs = Program.jobs;
            Program.part("lock", jobs, () -> contend(clients, c -> c.getLock("lock"), "counter", jobs));
            Program.part("fair lock", jobs / 4, () -> contend(clients, c -> c.getFairLock("fair"), "fairly", jobs / 4));
            Program.part("read-write lock", jobs / 4, () -> readersAndWriters(clients, jobs / 4));
            Program.part("watchdog", 1, () -> watchdog(clients));
            Program.part("map", jobs, () -> map(clients, jobs));
            Program.part("map cache", jobs / 4, () -> mapCache(clients, jobs / 4));
            Program.part("rate limiter", jobs, () -> limits(clients, jobs));
            Program.part("semaphore", jobs, () -> semaphore(clients, jobs));
            Program.part("delayed queue", jobs / 4, () -> delayedQueue(clients, jobs / 4));
        });
    }
}
