import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Arguments, reports, checks and the time limit that all programs share. */
final class Program {
    static int port;
    static int jobs;

    interface Body {
        void run() throws Exception;
    }

    interface Numbered {
        void run(int n) throws Exception;
    }

    private Program() {}

    /** Ends the process with "done", or with an error, which includes a hang. */
    static void run(String[] args, Body main) {
        port = Integer.parseInt(args[0]);
        jobs = Integer.parseInt(args[1]);
        Thread limit = new Thread(() -> {
            try {
                TimeUnit.MINUTES.sleep(5);
            } catch (InterruptedException ignored) {
                return;
            }
            Thread.getAllStackTraces().forEach((thread, stack) -> System.err.println(thread + " " + List.of(stack)));
            System.err.println("timed out");
            Runtime.getRuntime().halt(1);
        });
        limit.setDaemon(true);
        limit.start();
        try {
            main.run();
            System.out.println("done");
            System.out.flush();
            Runtime.getRuntime().halt(0);
        } catch (Throwable error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** Runs one part. Prints its name, how many jobs it did, and its seconds. */
    static void part(String name, int count, Body body) throws Exception {
        long begin = System.nanoTime();
        body.run();
        System.out.printf("%s\t%d\t%.3f%n", name, count, (System.nanoTime() - begin) / 1e9);
        System.out.flush();
    }

    /** Runs `body` on as many threads as given, with numbers from 0, and waits for all. */
    static void onThreads(int threads, Numbered body) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<Void>> all = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            int n = i;
            Callable<Void> call = () -> {
                body.run(n);
                return null;
            };
            all.add(pool.submit(call));
        }
        for (Future<Void> one : all) one.get();
        pool.shutdown();
    }

    static void check(boolean is, String what) {
        if (!is) throw new AssertionError(what);
    }

    static void equal(Object found, Object expected, String what) {
        check(expected.equals(found), what + ": " + found + " instead of " + expected);
    }

    /** Waits until `is` returns true; the limit of the program ends a wait that never succeeds. */
    static void until(Callable<Boolean> is) throws Exception {
        while (!is.call()) Thread.sleep(20);
    }
}
