import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.ArrayList;
import java.util.List;

/** Parts, checks and waits of the everyday sessions in Java. */
final class Everyday {
    private static final int PATIENCE_MS = 60_000;

    interface Body {
        void run() throws Exception;
    }

    /** Runs a part and prints its name; ends the process if it fails. */
    static void part(String name, Body body) {
        try {
            body.run();
            System.out.println(name);
        } catch (Throwable error) {
            error.printStackTrace();
            System.err.println(name + ": " + error);
            Runtime.getRuntime().halt(1);
        }
    }

    static void same(Object found, Object expected) {
        if (!Objects.equals(found, expected)) throw new AssertionError(found + ", not " + expected);
    }

    static void until(Callable<Boolean> isReached) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!isReached.call()) {
            if (System.currentTimeMillis() > end) throw new AssertionError("not reached");
            Thread.sleep(10);
        }
    }

    static void onThreads(int count, Body body) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(count);
        List<Future<?>> all = new ArrayList<>();
        for (int n = 0; n < count; n++) {
            all.add(threads.submit(() -> {
                body.run();
                return null;
            }));
        }
        for (Future<?> one : all) one.get();
        threads.shutdown();
    }

    /** Makes the key store beside this file the default one. */
    static void trust(String authority) {
        System.setProperty("javax.net.ssl.trustStore", authority.replace("ca.crt", "ca.p12"));
        System.setProperty("javax.net.ssl.trustStorePassword", "changeit");
    }

    private Everyday() {}
}
