import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.ZAddArgs;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.logging.LogManager;

/** Lettuce as a client of a cluster that changes: java LettuceCluster PORT... */
final class LettuceCluster {
    private static final Duration PATIENCE = Duration.ofSeconds(20);

    private record Client(StatefulRedisClusterConnection<String, String> connection) implements ClusterSession.Client {
        @Override
        public void raiseScore(String key, double score) {
            connection.sync().zadd(key, ZAddArgs.Builder.gt(), score, "m");
        }

        @Override
        public Double score(String key) {
            return connection.sync().zscore(key, "m");
        }

        @Override
        public List<?> pipeline(List<String> keys) throws Exception {
            List<RedisFuture<String>> replies = new ArrayList<>();
            for (String key : keys) replies.add(connection.async().set(key, key));
            LettuceFutures.awaitAll(PATIENCE, replies.toArray(RedisFuture[]::new));
            List<String> values = new ArrayList<>();
            for (RedisFuture<String> reply : replies) values.add(reply.get(1, TimeUnit.SECONDS));
            return values;
        }

        @Override
        public List<?> otherCommands(String tag) {
            RedisAdvancedClusterCommands<String, String> commands = connection.sync();
            Map<String, String> values = new LinkedHashMap<>();
            values.put(tag + "a", "1");
            values.put(tag + "b", "2");
            commands.mset(values);
            List<Object> replies = new ArrayList<>();
            commands.mget(tag + "a", tag + "b").forEach(value -> replies.add(value.getValue()));
            String script = "return server.call('get', KEYS[1])";
            replies.add(commands.eval(script, ScriptOutputType.VALUE, tag + "a"));
            commands.spublish(tag, "message");
            return replies;
        }
    }

    public static void main(String[] args) throws Exception {
        LogManager.getLogManager().reset();
        ClusterSession.run("lettuce", args, ports -> {
            List<RedisURI> nodes = ports.stream().map(port -> RedisURI.create("127.0.0.1", port)).toList();
            nodes.forEach(node -> node.setTimeout(PATIENCE));
            RedisClusterClient client = RedisClusterClient.create(nodes);
            // As Lettuce's manual advises: without a refresh, it never learns of new primaries.
            client.setOptions(ClusterClientOptions.builder()
                    .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                            .enablePeriodicRefresh(Duration.ofSeconds(2))
                            .enableAllAdaptiveRefreshTriggers()
                            .build())
                    .build());
            return new Client(client.connect());
        });
    }

    private LettuceCluster() {}
}
