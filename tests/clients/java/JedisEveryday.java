import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLSocketFactory;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.AbstractPipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.StreamEntry;

/** An application's use of Jedis: java JedisEveryday PORT TLS_PORT CA CLUSTER_PORT. table.py has the arguments. */
final class JedisEveryday {
    private static RedisClient client;
    private static int port;

    private static void pool() throws Exception {
        Everyday.onThreads(16, () -> {
            for (int n = 0; n < 200; n++) client.incr("pool");
        });
        Everyday.same(client.get("pool"), "3200");
    }

    private static void pipeline() {
        try (AbstractPipeline pipe = client.pipelined()) {
            for (int n = 0; n < 5000; n++) pipe.set("pipe:" + n, "" + n);
        }
        Everyday.same(client.get("pipe:4999"), "4999");
    }

    private static void transaction() {
        client.set("account", "10");
        for (boolean isFirst : new boolean[] {true, false}) {
            try (AbstractTransaction transaction = client.transaction(false)) {
                transaction.watch("account");
                // The first try fails: another client changes the watched key.
                if (isFirst) client.set("account", "5");
                transaction.multi();
                transaction.decr("account");
                Everyday.same(transaction.exec() == null, isFirst);
            }
        }
        Everyday.same(client.get("account"), "4");
    }

    private static void blockingPop() throws Exception {
        CompletableFuture<List<String>> popped = CompletableFuture.supplyAsync(() -> client.blpop(60, "jobs"));
        Everyday.until(() -> client.info("clients").contains("blocked_clients:1"));
        client.rpush("jobs", "work");
        Everyday.same(popped.get(1, TimeUnit.MINUTES), List.of("jobs", "work"));
    }

    private static void reconnection() throws Exception {
        for (int n = 0; n < 20; n++) {
            try (Jedis killer = new Jedis("127.0.0.1", port)) {
                killer.sendCommand(redis.clients.jedis.Protocol.Command.CLIENT, "KILL", "TYPE", "normal");
            }
            // A connection of the pool is tested before its use at most; the caller repeats a request.
            Everyday.until(() -> {
                try {
                    return client.incr("n") > 0;
                } catch (JedisException e) {
                    return false;
                }
            });
        }
        Everyday.same(client.get("n"), "20");
    }

    /** Publishes. False, too, if the connection that the pool gave was one of those killed before. */
    private static boolean isHeard(String message) {
        try {
            return client.publish("news", message) == 1;
        } catch (JedisException e) {
            return false;
        }
    }

    private static void subscription() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String message) {
                seen.add(message);
            }
        };
        Thread listener = new Thread(() -> {
            // The library leaves it to its caller to subscribe again.
            while (!Thread.interrupted()) {
                try {
                    client.subscribe(subscriber, "news");
                } catch (JedisException lost) {
                    continue;
                }
            }
        });
        listener.setDaemon(true);
        listener.start();
        Everyday.until(() -> isHeard("one"));
        Everyday.same(seen.poll(1, TimeUnit.MINUTES), "one");
        try (Jedis killer = new Jedis("127.0.0.1", port)) {
            killer.sendCommand(redis.clients.jedis.Protocol.Command.CLIENT, "KILL", "TYPE", "pubsub");
        }
        Everyday.until(() -> isHeard("two"));
        Everyday.same(seen.poll(1, TimeUnit.MINUTES), "two");
    }

    private static void streams() {
        for (int n = 0; n < 100; n++) client.xadd("events", StreamEntryID.NEW_ENTRY, Map.of("n", "" + n));
        client.xgroupCreate("events", "workers", new StreamEntryID(), false);
        List<String> seen = new ArrayList<>();
        while (seen.size() < 100) {
            List<Map.Entry<String, List<StreamEntry>>> batch = client.xreadGroup("workers", "w1",
                    XReadGroupParams.xReadGroupParams().count(16),
                    Map.of("events", StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
            for (StreamEntry entry : batch.get(0).getValue()) {
                seen.add(entry.getFields().get("n"));
                Everyday.same(client.xack("events", "workers", entry.getID()), 1L);
            }
        }
        Everyday.same(seen.get(99), "99");
        Everyday.same(client.xpending("events", "workers").getTotal(), 0L);
    }

    private static void scripts() {
        String script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        String sha = client.scriptLoad(script, "script");
        Everyday.same(client.evalsha(sha, 1, "script", "2"), 2L);
        client.scriptFlush("script");
        try {
            client.evalsha(sha, 1, "script", "3");
            throw new AssertionError("a flushed script ran");
        } catch (JedisNoScriptException e) {
            Everyday.same(client.eval(script, 1, "script", "3"), 5L);
        }
    }

    private static void tls(String[] args) {
        Everyday.trust(args[2]);
        DefaultJedisClientConfig config = DefaultJedisClientConfig.builder()
                .ssl(true)
                .sslSocketFactory((SSLSocketFactory) SSLSocketFactory.getDefault())
                .build();
        HostAndPort address = new HostAndPort("localhost", Integer.parseInt(args[1]));
        try (RedisClient secure = RedisClient.builder().hostAndPort(address).clientConfig(config).build()) {
            secure.set("tls", "x".repeat(1_000_000));
            Everyday.same(secure.get("tls").length(), 1_000_000);
        }
    }

    private static void cluster(String port) {
        Set<HostAndPort> nodes = Set.of(new HostAndPort("127.0.0.1", Integer.parseInt(port)));
        try (RedisClusterClient cluster = RedisClusterClient.create(nodes)) {
            for (int n = 0; n < 100; n++) cluster.set("key:" + n, "" + n);
            Everyday.same(cluster.get("key:99"), "99");
        }
    }

    public static void main(String[] args) throws Exception {
        port = Integer.parseInt(args[0]);
        client = RedisClient.create("127.0.0.1", port);
        Everyday.part("pool", JedisEveryday::pool);
        Everyday.part("pipeline", JedisEveryday::pipeline);
        Everyday.part("transaction", JedisEveryday::transaction);
        Everyday.part("blocking pop", JedisEveryday::blockingPop);
        Everyday.part("reconnection", JedisEveryday::reconnection);
        Everyday.part("lost subscription", JedisEveryday::subscription);
        Everyday.part("streams", JedisEveryday::streams);
        Everyday.part("scripts", JedisEveryday::scripts);
        Everyday.part("TLS", () -> tls(args));
        Everyday.part("cluster", () -> cluster(args[3]));
        System.out.println("done");
        System.exit(0);
    }

    private JedisEveryday() {}
}
