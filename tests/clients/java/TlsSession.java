import java.io.BufferedReader;
import java.io.File;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Protocol;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.SslOptions;
import redis.clients.jedis.exceptions.JedisConnectionException;

/** TLS sessions of Jedis. tests/tests/tls/libraries.rs has the requests that it reads. */
public final class TlsSession {
    private static final int MESSAGES = 100;
    private static final int PATIENCE_SECONDS = 60;
    private static final Pattern BLOCKED = Pattern.compile(" name=jedis .* flags=\\w*b");
    private static final char[] PASSWORD = "password".toCharArray();
    private static Path folder;
    private static int port;
    private static DefaultJedisClientConfig.Builder options;
    private static RedisClient client;

    private TlsSession() {}

    private static Certificate certificate(String name) throws Exception {
        try (InputStream file = Files.newInputStream(folder.resolve(name + ".crt"))) {
            return CertificateFactory.getInstance("X.509").generateCertificate(file);
        }
    }

    private static PrivateKey key(String name) throws Exception {
        String pem = Files.readString(folder.resolve(name + ".key")).replaceAll("-----[A-Z ]+-----|\\s", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getDecoder().decode(pem)));
    }

    private static KeyStore emptyStore() throws Exception {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static File save(KeyStore store, String name) throws Exception {
        Path path = folder.resolve(name);
        try (OutputStream file = Files.newOutputStream(path)) {
            store.store(file, PASSWORD);
        }
        return path.toFile();
    }

    private static SslOptions tls(String ca, String own) throws Exception {
        KeyStore trusted = emptyStore();
        trusted.setCertificateEntry("ca", certificate(ca));
        SslOptions.Builder tls = SslOptions.builder().truststore(save(trusted, "trusted.p12"), PASSWORD);
        if (!own.equals("-")) {
            KeyStore keys = emptyStore();
            keys.setKeyEntry("own", key(own), PASSWORD, new Certificate[] {certificate(own)});
            tls.keystore(save(keys, "own.p12"), PASSWORD);
        }
        return tls.build();
    }

    private static RedisClient open(DefaultJedisClientConfig config) {
        return RedisClient.builder().hostAndPort(new HostAndPort("localhost", port)).clientConfig(config).build();
    }

    private static String connect(String[] words) throws Exception {
        if (client != null) client.close();
        port = Integer.parseInt(words[1]);
        options = DefaultJedisClientConfig.builder().sslOptions(tls(words[2], words[3]))
                .socketTimeoutMillis(PATIENCE_SECONDS * 1000).blockingSocketTimeoutMillis(PATIENCE_SECONDS * 1000);
        if (!words[4].equals("-")) options.user(words[4]).password(words[5]);
        client = open(options.build());
        return text(client.sendCommand(Protocol.Command.ACL, "WHOAMI"));
    }

    private static String text(Object reply) {
        return new String((byte[]) reply, StandardCharsets.UTF_8);
    }

    private static void check(boolean is, String what) {
        if (!is) throw new AssertionError(what);
    }

    private static String session() throws Exception {
        try (Pipeline pipe = client.pipelined()) {
            List<Response<Long>> lengths = new ArrayList<>();
            for (int n = 0; n < 1000; n++) lengths.add(pipe.rpush("jedis:list", String.valueOf(n)));
            pipe.sync();
            for (int n = 0; n < 1000; n++) check(lengths.get(n).get() == n + 1, "length " + n);
        }
        String large = "0123456789abcdef".repeat(65536);
        check(client.set("jedis:large", large).equals("OK"), "SET");
        check(client.get("jedis:large").equals(large), "GET");
        try (AbstractTransaction transaction = client.multi()) {
            transaction.incr("jedis:n");
            transaction.incrBy("jedis:n", 41);
            check(transaction.exec().equals(List.of(1L, 42L)), "EXEC");
        }
        subscribe();
        block();
        client.del("jedis:list", "jedis:large", "jedis:n");
        return "OK";
    }

    private static void subscribe() throws Exception {
        List<String> seen = new ArrayList<>();
        CompletableFuture<Void> begun = new CompletableFuture<>();
        JedisPubSub subscriber = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                begun.complete(null);
            }

            @Override
            public void onMessage(String channel, String message) {
                seen.add(message);
                if (seen.size() == MESSAGES) unsubscribe();
            }
        };
        CompletableFuture<Void> over = CompletableFuture.runAsync(() -> client.subscribe(subscriber, "jedis"));
        CompletableFuture.anyOf(begun, over).get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        for (int n = 0; n < MESSAGES; n++) check(client.publish("jedis", String.valueOf(n)) == 1, "PUBLISH");
        over.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
        for (int n = 0; n < MESSAGES; n++) check(seen.get(n).equals(String.valueOf(n)), "message " + n);
    }

    private static void block() throws Exception {
        try (RedisClient waiter = open(options.clientName("jedis").build())) {
            CompletableFuture<List<String>> popped =
                    CompletableFuture.supplyAsync(() -> waiter.blpop(PATIENCE_SECONDS, "jedis:queue"));
            while (!BLOCKED.matcher(text(client.sendCommand(Protocol.Command.CLIENT, "LIST"))).find()) {
                check(!popped.isDone(), "BLPOP has ended");
            }
            client.rpush("jedis:queue", "element");
            check(popped.get().equals(List.of("jedis:queue", "element")), "BLPOP");
        }
    }

    /** Repeats a command that fails on connections that the server's end has broken. */
    private static String again() {
        for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);;) {
            try {
                return client.set("again", "value");
            } catch (JedisConnectionException error) {
                if (System.nanoTime() > end) throw error;
            }
        }
    }

    private static String answer(String[] words) throws Exception {
        switch (words[0]) {
            case "connect": return connect(words);
            case "set": return client.set(words[1], "value");
            case "session": return session();
            case "again": return again();
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    /** All causes of an error. */
    private static String causes(Throwable error) {
        String own = error.toString();
        return error.getCause() == null ? own : own + ": " + causes(error.getCause());
    }

    public static void main(String[] args) throws Exception {
        folder = Path.of(args[0]);
        Thread limit = new Thread(() -> {
            try {
                TimeUnit.SECONDS.sleep(3 * PATIENCE_SECONDS);
            } catch (InterruptedException ignored) {
                return;
            }
            System.err.println("timed out");
            Runtime.getRuntime().halt(1);
        });
        limit.setDaemon(true);
        limit.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null;) {
            String reply;
            try {
                reply = answer(line.split(" "));
            } catch (Throwable error) {
                reply = "error " + causes(error);
            }
            System.out.println(reply.replaceAll("\\s+", " "));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
