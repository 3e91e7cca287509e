import io.lettuce.core.ClientOptions;
import io.lettuce.core.Consumer;
import io.lettuce.core.KeyValue;
import io.lettuce.core.KillArgs;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SslOptions;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.io.File;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;

/** An application's use of Lettuce: java LettuceEveryday PORT TLS_PORT CA CLUSTER_PORT. table.py has the arguments. */
final class LettuceEveryday {
    private static RedisClient library;
    private static RedisCommands<String, String> client;

    private static void sharedConnection() throws Exception {
        Everyday.onThreads(16, () -> {
            for (int n = 0; n < 200; n++) client.incr("pool");
        });
        Everyday.same(client.get("pool"), "3200");
    }

    private static void pipeline() throws Exception {
        StatefulRedisConnection<String, String> connection = library.connect();
        connection.setAutoFlushCommands(false);
        List<RedisFuture<String>> replies = new ArrayList<>();
        for (int n = 0; n < 5000; n++) replies.add(connection.async().set("pipe:" + n, "" + n));
        connection.flushCommands();
        for (RedisFuture<String> reply : replies) Everyday.same(reply.get(1, TimeUnit.MINUTES), "OK");
        connection.close();
    }

    private static void transaction() {
        client.set("account", "10");
        RedisCommands<String, String> buyer = library.connect().sync();
        for (boolean isFirst : new boolean[] {true, false}) {
            buyer.watch("account");
            // The first try fails: another client changes the watched key.
            if (isFirst) client.set("account", "5");
            buyer.multi();
            buyer.decr("account");
            Everyday.same(buyer.exec().wasDiscarded(), isFirst);
        }
        Everyday.same(client.get("account"), "4");
    }

    private static void blockingPop() throws Exception {
        RedisFuture<KeyValue<String, String>> popped = library.connect().async().blpop(60, "jobs");
        Everyday.until(() -> client.info("clients").contains("blocked_clients:1"));
        client.rpush("jobs", "work");
        Everyday.same(popped.get(1, TimeUnit.MINUTES), KeyValue.just("jobs", "work"));
    }

    private static void reconnection() throws Exception {
        RedisCommands<String, String> victim = library.connect().sync();
        for (int n = 0; n < 20; n++) {
            Everyday.same(client.clientKill(KillArgs.Builder.id(victim.clientId())), 1L);
            // The library queues requests until it has reconnected. It fails one that it sends to a socket which is reset.
            Everyday.until(() -> {
                try {
                    return victim.incr("n") > 0;
                } catch (RedisException e) {
                    return false;
                }
            });
        }
    }

    private static void subscription() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        StatefulRedisPubSubConnection<String, String> subscriber = library.connectPubSub();
        subscriber.addListener(new RedisPubSubAdapter<>() {
            @Override
            public void message(String channel, String message) {
                seen.add(message);
            }
        });
        subscriber.sync().subscribe("news");
        client.clientKill(KillArgs.Builder.typePubsub());
        // It subscribes again by itself.
        Everyday.until(() -> client.publish("news", "two") == 1);
        Everyday.same(seen.poll(1, TimeUnit.MINUTES), "two");
        subscriber.close();
    }

    private static void streams() {
        for (int n = 0; n < 100; n++) client.xadd("events", Map.of("n", "" + n));
        client.xgroupCreate(XReadArgs.StreamOffset.from("events", "0"), "workers");
        int seen = 0;
        while (seen < 100) {
            List<StreamMessage<String, String>> batch = client.xreadgroup(Consumer.from("workers", "w1"),
                    XReadArgs.Builder.count(16), XReadArgs.StreamOffset.lastConsumed("events"));
            for (StreamMessage<String, String> entry : batch) {
                Everyday.same(entry.getBody().get("n"), "" + seen++);
                Everyday.same(client.xack("events", "workers", entry.getId()), 1L);
            }
        }
    }

    private static void scripts() {
        String script = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
        String sha = client.scriptLoad(script);
        Long sum = client.evalsha(sha, ScriptOutputType.INTEGER, new String[] {"script"}, "2");
        Everyday.same(sum, 2L);
        client.scriptFlush();
        try {
            client.evalsha(sha, ScriptOutputType.INTEGER, new String[] {"script"}, "3");
            throw new AssertionError("a flushed script ran");
        } catch (RedisNoScriptException e) {
            Long again = client.eval(script, ScriptOutputType.INTEGER, new String[] {"script"}, "3");
            Everyday.same(again, 5L);
        }
    }

    private static void caching() throws Exception {
        Map<String, String> values = new ConcurrentHashMap<>();
        CacheFrontend<String, String> cached = ClientSideCaching.enable(
                CacheAccessor.forMap(values), library.connect(), TrackingArgs.Builder.enabled());
        client.set("cached", "old");
        Everyday.same(cached.get("cached"), "old");
        Everyday.same(values, Map.of("cached", "old"));
        client.set("cached", "new");
        Everyday.until(() -> cached.get("cached").equals("new"));
    }

    private static void tls(String port, String authority) {
        RedisURI address = RedisURI.builder().withHost("localhost").withPort(Integer.parseInt(port)).withSsl(true).build();
        RedisClient secure = RedisClient.create(address);
        SslOptions trust = SslOptions.builder().trustManager(new File(authority)).build();
        secure.setOptions(ClientOptions.builder().sslOptions(trust).build());
        RedisCommands<String, String> commands = secure.connect().sync();
        commands.set("tls", "x".repeat(1_000_000));
        Everyday.same(commands.get("tls").length(), 1_000_000);
    }

    private static void cluster(String port) {
        var cluster = RedisClusterClient.create(RedisURI.create("127.0.0.1", Integer.parseInt(port))).connect().sync();
        for (int n = 0; n < 100; n++) cluster.set("key:" + n, "" + n);
        Everyday.same(cluster.get("key:99"), "99");
    }

    public static void main(String[] args) {
        LogManager.getLogManager().reset();
        library = RedisClient.create(RedisURI.create("127.0.0.1", Integer.parseInt(args[0])));
        client = library.connect().sync();
        Everyday.part("shared connection", LettuceEveryday::sharedConnection);
        Everyday.part("pipeline", LettuceEveryday::pipeline);
        Everyday.part("transaction", LettuceEveryday::transaction);
        Everyday.part("blocking pop", LettuceEveryday::blockingPop);
        Everyday.part("reconnection", LettuceEveryday::reconnection);
        Everyday.part("lost subscription", LettuceEveryday::subscription);
        Everyday.part("streams", LettuceEveryday::streams);
        Everyday.part("scripts", LettuceEveryday::scripts);
        Everyday.part("client-side caching", LettuceEveryday::caching);
        Everyday.part("TLS", () -> tls(args[1], args[2]));
        Everyday.part("cluster", () -> cluster(args[3]));
        System.out.println("done");
        System.exit(0);
    }

    private LettuceEveryday() {}
}
