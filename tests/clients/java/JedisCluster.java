import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.Response;
import redis.clients.jedis.exceptions.JedisRedirectionException;
import redis.clients.jedis.params.ZAddParams;

/** Jedis as a client of a cluster that changes: java JedisCluster PORT... */
final class JedisCluster {
    private record Client(RedisClusterClient jedis) implements ClusterSession.Client {
        @Override
        public void raiseScore(String key, double score) {
            jedis.zadd(key, score, "m", ZAddParams.zAddParams().gt());
        }

        @Override
        public Double score(String key) {
            return jedis.zscore(key, "m");
        }

        @Override
        public List<?> pipeline(List<String> keys) {
            List<Response<String>> replies = new ArrayList<>();
            try (ClusterPipeline pipe = jedis.pipelined()) {
                for (String key : keys) replies.add(pipe.set(key, key));
            }
            List<String> values = new ArrayList<>();
            for (String key : keys) {
                try {
                    values.add(replies.get(values.size()).get());
                } catch (JedisRedirectionException e) {
                    // Pipelines don't follow redirects. A request alone does, and learns of the new owner.
                    values.add(jedis.set(key, key));
                }
            }
            return values;
        }

        @Override
        public List<?> otherCommands(String tag) {
            jedis.mset(tag + "a", "1", tag + "b", "2");
            List<Object> replies = new ArrayList<>(jedis.mget(tag + "a", tag + "b"));
            replies.add(jedis.eval("return server.call('get', KEYS[1])", 1, tag + "a"));
            jedis.spublish(tag, "message");
            return replies;
        }
    }

    public static void main(String[] args) throws Exception {
        ClusterSession.run("jedis", args, ports -> {
            Set<HostAndPort> nodes = new HashSet<>();
            for (int port : ports) nodes.add(new HostAndPort("127.0.0.1", port));
            return new Client(RedisClusterClient.create(nodes));
        });
    }

    private JedisCluster() {}
}
