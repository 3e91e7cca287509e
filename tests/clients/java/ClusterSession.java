import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;

/** The load of the cluster sessions in Java; tests/tests/nodes/clients.rs has its orders and its steps. */
final class ClusterSession {
    private static final int WORKERS = 3;
    private static final int KEYS = 60;
    private static final int PAUSE_MS = 10;
    private static final int PATIENCE_MS = 90_000;
    /** Lost writes of a worker that it prints. */
    private static final int REPORTED = 3;

    private static volatile boolean isStrict = true;
    private static volatile boolean isOver;
    private static final Queue<String> failures = new ConcurrentLinkedQueue<>();

    /** The requests of a library. */
    interface Client {
        void raiseScore(String key, double score) throws Exception;

        /** Null if there is none. */
        Double score(String key) throws Exception;

        /** Sets these keys. */
        List<?> pipeline(List<String> keys) throws Exception;

        /** MSET, MGET, EVAL and SPUBLISH; returns the replies of MGET and EVAL. */
        List<?> otherCommands(String tag) throws Exception;
    }

    interface Connect {
        Client to(List<Integer> ports) throws Exception;
    }

    private static final class WrongReply extends Exception {
        WrongReply(Object found) {
            super(String.valueOf(found));
        }
    }

    private static final class Worker extends Thread {
        final String library;
        final int number;
        final Client client;
        volatile int rounds, failed, lost;
        final Map<String, Double> acknowledged = new HashMap<>(), sent = new HashMap<>();

        Worker(String library, int number, Client client) {
            this.library = library;
            this.number = number;
            this.client = client;
            setDaemon(true);
        }

        @Override
        public void run() {
            while (!isOver) {
                try {
                    step();
                    rounds++;
                } catch (Exception e) {
                    failed++;
                    if (isStrict || e instanceof WrongReply) fail(e);
                }
                pause(PAUSE_MS);
            }
        }

        void fail(Exception e) {
            failures.add(("worker " + number + ": " + e + " " + e.getCause()).replace('\n', ' '));
        }

        private void step() throws Exception {
            String key = library + ":" + number + ":" + ThreadLocalRandom.current().nextInt(KEYS);
            double value = sent.merge(key, 1.0, Double::sum);
            client.raiseScore(key, value);
            acknowledged.put(key, value);
            check(key);
            List<String> keys = new ArrayList<>();
            for (int n = 0; n < 10; n++) keys.add(key + ":" + n);
            List<?> replies = client.pipeline(keys);
            if (replies.size() != 10 || !replies.stream().allMatch("OK"::equals)) throw new WrongReply(replies);
            List<?> others = client.otherCommands("{" + key + "}");
            if (!others.equals(List.of("1", "2", "1"))) throw new WrongReply(others);
        }

        void check(String key) throws Exception {
            Double score = client.score(key);
            double found = score == null ? 0 : score;
            if (found < acknowledged.get(key)) {
                lost++;
                if (lost <= REPORTED) System.err.println("lost: " + key + ": " + found + ", not " + acknowledged.get(key));
                acknowledged.put(key, found);
            }
        }
    }

    private static void pause(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static void settle(List<Worker> workers) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        for (Worker worker : workers) {
            for (int goal = worker.rounds + 3; worker.rounds < goal; pause(PAUSE_MS)) {
                if (System.currentTimeMillis() > end) {
                    failures.add("no progress");
                    return;
                }
            }
        }
    }

    private static void finish(List<Worker> workers) throws Exception {
        isOver = true;
        for (Worker worker : workers) {
            worker.join();
            for (String key : worker.acknowledged.keySet()) {
                try {
                    worker.check(key);
                } catch (Exception e) {
                    worker.fail(e);
                }
            }
        }
    }

    static void run(String library, String[] args, Connect connect) throws Exception {
        List<Integer> ports = new ArrayList<>();
        for (String arg : args) ports.add(Integer.valueOf(arg));
        List<Worker> workers = new ArrayList<>();
        for (int number = 0; number < WORKERS; number++) workers.add(new Worker(library, number, connect.to(ports)));
        workers.forEach(Thread::start);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String order = input.readLine(); order != null; order = input.readLine()) {
            if (order.equals("strict") || order.equals("lenient")) {
                isStrict = order.equals("strict");
                System.out.println("ok");
                continue;
            }
            if (order.equals("settled")) settle(workers);
            else finish(workers);
            int rounds = workers.stream().mapToInt(w -> w.rounds).sum();
            int failed = workers.stream().mapToInt(w -> w.failed).sum();
            int lost = workers.stream().mapToInt(w -> w.lost).sum();
            System.out.println(failures.isEmpty()
                    ? order + " " + rounds + " " + failed + " " + lost
                    : "failed " + failures.stream().limit(5).toList());
        }
        System.exit(0);
    }

    private ClusterSession() {}
}
