import io.lettuce.core.ClientOptions;
import io.lettuce.core.SslOptions;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.logging.LogManager;
import org.springframework.cache.Cache;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.ComponentScan;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.FilterType;
import org.springframework.dao.DataAccessException;
import org.springframework.data.annotation.Id;
import org.springframework.data.redis.cache.RedisCacheConfiguration;
import org.springframework.data.redis.cache.RedisCacheManager;
import org.springframework.data.redis.cache.RedisCacheWriter;
import org.springframework.data.redis.connection.RedisClusterConfiguration;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceClientConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.connection.stream.Consumer;
import org.springframework.data.redis.connection.stream.MapRecord;
import org.springframework.data.redis.connection.stream.ReadOffset;
import org.springframework.data.redis.connection.stream.StreamOffset;
import org.springframework.data.redis.core.RedisCallback;
import org.springframework.data.redis.core.RedisHash;
import org.springframework.data.redis.core.RedisOperations;
import org.springframework.data.redis.core.SessionCallback;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.TimeToLive;
import org.springframework.data.redis.core.index.Indexed;
import org.springframework.data.redis.core.script.RedisScript;
import org.springframework.data.redis.core.types.RedisClientInfo;
import org.springframework.data.redis.listener.ChannelTopic;
import org.springframework.data.redis.listener.RedisMessageListenerContainer;
import org.springframework.data.redis.repository.configuration.EnableRedisRepositories;
import org.springframework.data.redis.stream.StreamMessageListenerContainer;
import org.springframework.data.redis.stream.StreamMessageListenerContainer.StreamMessageListenerContainerOptions;
import org.springframework.data.repository.CrudRepository;

/**
 * Spring Data Redis: templates, repositories, a cache, and containers of listeners. The parts of TLS and of a cluster run
 * only with more arguments: java SpringDataProgram PORT JOBS TLS_PORT CA CLUSTER_PORT.
 */
public final class SpringDataProgram {
    private static StringRedisTemplate template;

    @RedisHash("people")
    public static class Person {
        @Id String id;
        @Indexed String city;
        int age;
        @TimeToLive Long secondsToLive;

        static Person of(String id, String city, int age) {
            Person person = new Person();
            person.id = id;
            person.city = city;
            person.age = age;
            return person;
        }
    }

    public interface People extends CrudRepository<Person, String> {
        List<Person> findByCity(String city);
    }

    @Configuration
    @EnableRedisRepositories(
            considerNestedRepositories = true,
            includeFilters = @ComponentScan.Filter(type = FilterType.ASSIGNABLE_TYPE, classes = People.class))
    public static class Config {
        @Bean
        public LettuceConnectionFactory redisConnectionFactory() {
            return new LettuceConnectionFactory("127.0.0.1", Program.port);
        }

        @Bean
        public StringRedisTemplate redisTemplate(LettuceConnectionFactory factory) {
            return new StringRedisTemplate(factory);
        }
    }

    private static void operations() throws Exception {
        Program.onThreads(16, thread -> {
            for (int n = 0; n < Program.jobs; n++) template.opsForValue().increment("pool");
        });
        Program.equal(template.opsForValue().get("pool"), "" + 16 * Program.jobs, "increments of 16 threads");
        template.opsForHash().putAll("hash", Map.of("a", "1", "b", "2"));
        template.opsForList().rightPushAll("list", "a", "b", "c");
        template.opsForZSet().add("zset", "one", 1.5);
        template.opsForSet().add("set", "a", "b");
        Program.equal(template.opsForHash().entries("hash"), Map.of("a", "1", "b", "2"), "a hash");
        Program.equal(template.opsForList().range("list", 0, -1), List.of("a", "b", "c"), "a list");
        Program.equal(template.opsForZSet().score("zset", "one"), 1.5, "a score");
        Program.equal(template.opsForSet().members("set"), Set.of("a", "b"), "a set");
        template.opsForValue().set("short", "x", Duration.ofMillis(50));
        Program.until(() -> !template.hasKey("short"));
    }

    private static void pipeline() {
        List<Object> replies = template.executePipelined((RedisCallback<Object>) connection -> {
            for (int n = 0; n < 5000; n++) connection.stringCommands().set(("pipe:" + n).getBytes(), ("" + n).getBytes());
            return null;
        });
        Program.equal(replies, Collections.nCopies(5000, true), "replies of a pipeline");
        Program.equal(template.opsForValue().get("pipe:4999"), "4999", "the last key");
    }

    /** Takes one from the account, and returns the replies of EXEC. */
    private static List<Object> spend(Runnable beforeExec) {
        return template.execute(new SessionCallback<List<Object>>() {
            @Override
            @SuppressWarnings("unchecked")
            public <K, V> List<Object> execute(RedisOperations<K, V> operations) {
                RedisOperations<String, String> client = (RedisOperations<String, String>) operations;
                client.watch("account");
                client.multi();
                client.opsForValue().decrement("account");
                beforeExec.run();
                return client.exec();
            }
        });
    }

    private static void transaction() {
        template.opsForValue().set("account", "10");
        // The first try fails: another thread, with another connection, changes the watched key.
        Runnable change = () -> template.opsForValue().set("account", "5");
        Program.equal(spend(() -> CompletableFuture.runAsync(change).join()), List.of(), "EXEC after a change");
        Program.equal(spend(() -> {}), List.of(4L), "EXEC");
    }

    private static void blockingPop() throws Exception {
        var popped = CompletableFuture.supplyAsync(() -> template.opsForList().leftPop("jobs", Duration.ofSeconds(60)));
        Program.until(() -> template.execute((RedisCallback<String>) connection ->
                connection.serverCommands().info("clients").getProperty("blocked_clients")).equals("1"));
        template.opsForList().rightPush("jobs", "work");
        Program.equal(popped.get(60, TimeUnit.SECONDS), "work", "BLPOP");
    }

    private static void kill(Predicate<RedisClientInfo> isVictim) {
        List<RedisClientInfo> victims = template.getClientList().stream().filter(isVictim).toList();
        Program.equal(victims.size(), 1, "connections to kill");
        String[] address = victims.get(0).getAddressPort().split(":");
        template.killClient(address[0], Integer.parseInt(address[1]));
    }

    private static boolean isIncremented(StringRedisTemplate victim) {
        try {
            return victim.opsForValue().increment("kills") > 0;
        } catch (DataAccessException e) {
            return false;
        }
    }

    private static void reconnection() throws Exception {
        LettuceConnectionFactory factory = new LettuceConnectionFactory("127.0.0.1", Program.port);
        factory.setClientName("victim");
        factory.afterPropertiesSet();
        factory.start();
        StringRedisTemplate victim = new StringRedisTemplate(factory);
        for (int n = 1; n <= 20; n++) {
            victim.hasKey("kills");
            kill(client -> "victim".equals(client.getName()));
            // The library queues requests until it has reconnected. It fails one that it sends to a socket which is reset.
            Program.until(() -> isIncremented(victim));
        }
        Program.check(Integer.parseInt(victim.opsForValue().get("kills")) >= 20, "lost increments");
        factory.destroy();
    }

    private static void lostSubscription() throws Exception {
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        RedisMessageListenerContainer container = new RedisMessageListenerContainer();
        container.setConnectionFactory(template.getRequiredConnectionFactory());
        container.addMessageListener((message, pattern) -> seen.add(new String(message.getBody())), new ChannelTopic("news"));
        container.afterPropertiesSet();
        container.start();
        Program.until(() -> template.convertAndSend("news", "one") == 1);
        Program.equal(seen.poll(60, TimeUnit.SECONDS), "one", "a message");
        kill(client -> client.getChannelSubscribtions() == 1);
        // It subscribes again by itself.
        Program.until(() -> template.convertAndSend("news", "two") == 1);
        Program.equal(seen.poll(60, TimeUnit.SECONDS), "two", "a message after the kill");
        container.destroy();
    }

    private static void streams() throws Exception {
        for (int n = 0; n < Program.jobs; n++) template.opsForStream().add("events", Map.of("n", "" + n));
        template.opsForStream().createGroup("events", ReadOffset.from("0"), "workers");
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        StreamMessageListenerContainerOptions<String, MapRecord<String, String, String>> options =
                StreamMessageListenerContainerOptions.builder().batchSize(16).pollTimeout(Duration.ofMillis(100)).build();
        var container = StreamMessageListenerContainer.create(template.getRequiredConnectionFactory(), options);
        container.receive(Consumer.from("workers", "w1"), StreamOffset.create("events", ReadOffset.lastConsumed()), entry -> {
            Program.equal(template.opsForStream().acknowledge("workers", entry), 1L, "XACK");
            seen.add(entry.getValue().get("n"));
        });
        container.start();
        for (int n = 0; n < 2 * Program.jobs; n++) {
            // Half of them come while the container waits for more.
            if (n >= Program.jobs) template.opsForStream().add("events", Map.of("n", "" + n));
            Program.equal("" + n, seen.poll(60, TimeUnit.SECONDS), "an entry");
        }
        Program.equal(template.opsForStream().pending("events", "workers").getTotalPendingMessages(), 0L, "pending entries");
        container.stop();
    }

    private static void scripts() {
        RedisScript<Long> add = RedisScript.of("return redis.call('INCRBY', KEYS[1], ARGV[1])", Long.class);
        Program.equal(template.execute(add, List.of("script"), "2"), 2L, "a script");
        // NOSCRIPT: the library sends the script.
        template.execute((RedisCallback<Object>) connection -> {
            connection.scriptingCommands().scriptFlush();
            return null;
        });
        Program.equal(template.execute(add, List.of("script"), "3"), 5L, "a flushed script");
    }

    private static void cache() throws Exception {
        var config = RedisCacheConfiguration.defaultCacheConfig().entryTtl(Duration.ofHours(1));
        // By default, the library writes to a cache and clears it in the background.
        RedisCacheWriter writer =
                RedisCacheWriter.create(template.getRequiredConnectionFactory(), options -> options.immediateWrites());
        RedisCacheManager manager = RedisCacheManager.builder(writer).cacheDefaults(config).build();
        manager.afterPropertiesSet();
        Cache cache = manager.getCache("books");
        List<Integer> loads = Collections.synchronizedList(new ArrayList<>());
        for (int n = 0; n < Program.jobs; n++) {
            int book = n % 10;
            Program.equal(cache.get(book, () -> { loads.add(book); return "book " + book; }), "book " + book, "a value");
        }
        Program.equal(loads.size(), 10, "loads");
        Program.check(template.getExpire("books::3", TimeUnit.SECONDS) > 3500, "no expiry");
        Program.check(cache.evictIfPresent(3) && cache.get(3) == null && cache.get(4) != null, "an evicted value");
        cache.clear();
        Program.equal(template.keys("books::*"), Set.of(), "keys of a cleared cache");
    }

    private static void repositories(People people) throws Exception {
        for (int n = 0; n < Program.jobs; n++) people.save(Person.of("p" + n, n % 2 == 0 ? "Bern" : "Rome", n));
        Program.equal(people.count(), (long) Program.jobs, "people");
        Program.equal(people.findByCity("Bern").size(), Program.jobs / 2, "people in Bern");
        Person first = people.findById("p1").orElseThrow();
        Program.equal(first.city + first.age, "Rome1", "a person");
        first.city = "Bern";
        people.save(first);
        Program.equal(people.findByCity("Bern").size(), Program.jobs / 2 + 1, "people in Bern after a move");
        people.deleteById("p1");
        Program.check(people.findById("p1").isEmpty() && people.findByCity("Bern").size() == Program.jobs / 2, "a deleted person");
        Person guest = Person.of("guest", "Oslo", 1);
        guest.secondsToLive = 1L;
        people.save(guest);
        Program.until(() -> people.findById("guest").isEmpty());
    }

    private static void tls(String port, String authority) {
        SslOptions trust = SslOptions.builder().trustManager(new File(authority)).build();
        var client = LettuceClientConfiguration.builder().clientOptions(ClientOptions.builder().sslOptions(trust).build());
        var server = new RedisStandaloneConfiguration("localhost", Integer.parseInt(port));
        StringRedisTemplate secure = start(new LettuceConnectionFactory(server, client.useSsl().build()));
        secure.opsForValue().set("tls", "x".repeat(1_000_000));
        Program.equal(secure.opsForValue().get("tls").length(), 1_000_000, "a large value");
    }

    private static void cluster(String port) {
        var nodes = new RedisClusterConfiguration(List.of("127.0.0.1:" + port));
        StringRedisTemplate cluster = start(new LettuceConnectionFactory(nodes));
        for (int n = 0; n < 100; n++) cluster.opsForValue().set("key:" + n, "" + n);
        Program.equal(cluster.opsForValue().multiGet(List.of("key:1", "key:99")), List.of("1", "99"), "MGET of two slots");
    }

    private static StringRedisTemplate start(LettuceConnectionFactory factory) {
        factory.afterPropertiesSet();
        factory.start();
        return new StringRedisTemplate(factory);
    }

    private static void all(String[] args) throws Exception {
        var context = new AnnotationConfigApplicationContext(Config.class);
        template = context.getBean(StringRedisTemplate.class);
        int jobs = Program.jobs;
        Program.part("templates", 16 * jobs, SpringDataProgram::operations);
        Program.part("pipeline", 5000, SpringDataProgram::pipeline);
        Program.part("transaction", 2, SpringDataProgram::transaction);
        Program.part("blocking pop", 1, SpringDataProgram::blockingPop);
        Program.part("reconnection", 20, SpringDataProgram::reconnection);
        Program.part("lost subscription", 2, SpringDataProgram::lostSubscription);
        Program.part("streams", 2 * jobs, SpringDataProgram::streams);
        Program.part("scripts", 2, SpringDataProgram::scripts);
        Program.part("cache", jobs, SpringDataProgram::cache);
        Program.part("repositories", jobs, () -> repositories(context.getBean(People.class)));
        if (args.length > 2) {
            Program.part("TLS", 1, () -> tls(args[2], args[3]));
            Program.part("cluster", 100, () -> cluster(args[4]));
        }
    }

    public static void main(String[] args) {
        LogManager.getLogManager().reset();
        Program.run(args, () -> all(args));
    }

    private SpringDataProgram() {}
}
