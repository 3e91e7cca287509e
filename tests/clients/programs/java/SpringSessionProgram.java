import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.EventListener;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.session.FindByIndexNameSessionRepository;
import org.springframework.session.Session;
import org.springframework.session.data.redis.RedisIndexedSessionRepository;
import org.springframework.session.data.redis.config.annotation.web.http.EnableRedisIndexedHttpSession;
import org.springframework.session.events.SessionCreatedEvent;
import org.springframework.session.events.SessionDeletedEvent;
import org.springframework.session.events.SessionExpiredEvent;

/** Spring Session: hashes with expiry, an index of users, and events from keyspace notifications. */
public final class SpringSessionProgram {
    private static final int USERS = 10;
    private static final int THREADS = 4;

    @Configuration
    @EnableRedisIndexedHttpSession
    public static class Config {
        static final Map<String, AtomicInteger> created = new ConcurrentHashMap<>();
        static final Map<String, AtomicInteger> deleted = new ConcurrentHashMap<>();
        static final Map<String, AtomicInteger> expired = new ConcurrentHashMap<>();

        @Bean
        public LettuceConnectionFactory connectionFactory() {
            return new LettuceConnectionFactory("127.0.0.1", Program.port);
        }

        private static void count(Map<String, AtomicInteger> events, String id) {
            events.computeIfAbsent(id, any -> new AtomicInteger()).incrementAndGet();
        }

        @EventListener
        public void onCreated(SessionCreatedEvent event) {
            count(created, event.getSessionId());
        }

        @EventListener
        public void onDeleted(SessionDeletedEvent event) {
            count(deleted, event.getSessionId());
        }

        @EventListener
        public void onExpired(SessionExpiredEvent event) {
            count(expired, event.getSessionId());
        }
    }

    /** Waits for one event of each session, and checks that there is no other one. */
    private static void heardOnce(Map<String, AtomicInteger> events, List<String> ids) throws Exception {
        Program.until(() -> ids.stream().allMatch(events::containsKey));
        Program.check(events.values().stream().allMatch(n -> n.get() == 1), "one event for each session");
        Program.equal(events.size(), ids.size(), "sessions with events");
    }

    /** Sessions of `count` logins: {@code ids.get(n)} belongs to user {@code n % USERS}. */
    private static <S extends Session> List<String> create(FindByIndexNameSessionRepository<S> sessions, int count)
            throws Exception {
        String[] ids = new String[count];
        Program.onThreads(THREADS, thread -> {
            for (int n = thread; n < count; n += THREADS) {
                S session = sessions.createSession();
                session.setAttribute(FindByIndexNameSessionRepository.PRINCIPAL_NAME_INDEX_NAME, "user" + n % USERS);
                session.setAttribute("cart", "item" + n);
                sessions.save(session);
                ids[n] = session.getId();
            }
        });
        heardOnce(Config.created, List.of(ids));
        return new CopyOnWriteArrayList<>(ids);
    }

    private static <S extends Session> void read(FindByIndexNameSessionRepository<S> sessions, List<String> ids)
            throws Exception {
        Program.onThreads(THREADS, thread -> {
            for (int n = thread; n < ids.size(); n += THREADS) {
                S session = sessions.findById(ids.get(n));
                Program.equal(session.getAttribute("cart"), "item" + n, "an attribute");
                session.setAttribute("cart", "other" + n);
                if (n % 4 == 0) ids.set(n, session.changeSessionId());
                sessions.save(session);
                Program.equal(sessions.findById(ids.get(n)).getAttribute("cart"), "other" + n, "a changed attribute");
            }
        });
        assertIndex(sessions, ids);
    }

    /** Each user's index has exactly the sessions of that user. */
    private static <S extends Session> void assertIndex(FindByIndexNameSessionRepository<S> sessions, List<String> ids) {
        for (int user = 0; user < USERS; user++) {
            int own = user;
            List<String> expected = java.util.stream.IntStream.range(0, ids.size()).filter(n -> n % USERS == own)
                    .mapToObj(ids::get).filter(id -> id != null).sorted().toList();
            List<String> found = sessions.findByPrincipalName("user" + user).keySet().stream().sorted().toList();
            Program.equal(found, expected, "sessions of a user");
        }
    }

    /** Deletes or expires the sessions whose number leaves `rest` when divided by 3. */
    private static <S extends Session> void end(RedisIndexedSessionRepository repository,
            FindByIndexNameSessionRepository<S> sessions, List<String> ids, int rest) throws Exception {
        List<String> ended = new CopyOnWriteArrayList<>();
        for (int n = rest; n < ids.size(); n += 3) {
            if (rest == 0) {
                sessions.deleteById(ids.get(n));
            } else {
                S session = sessions.findById(ids.get(n));
                session.setMaxInactiveInterval(Duration.ofSeconds(1));
                sessions.save(session);
            }
            ended.add(ids.set(n, null));
        }
        Program.until(() -> {
            repository.cleanUpExpiredSessions();
            return (rest == 0 ? Config.deleted : Config.expired).size() >= ended.size();
        });
        heardOnce(rest == 0 ? Config.deleted : Config.expired, ended);
        for (String id : ended) Program.check(sessions.findById(id) == null, "an ended session");
        assertIndex(sessions, ids);
    }

    public static void main(String[] args) {
        Program.run(args, () -> {
            var context = new AnnotationConfigApplicationContext(Config.class);
            RedisIndexedSessionRepository repository = context.getBean(RedisIndexedSessionRepository.class);
            StringRedisTemplate redis = new StringRedisTemplate(context.getBean(LettuceConnectionFactory.class));
            int jobs = Program.jobs;
            List<List<String>> created = new CopyOnWriteArrayList<>();
            Program.part("create", jobs, () -> created.add(create(repository, jobs)));
            List<String> ids = created.get(0);
            Program.part("read and change", jobs, () -> read(repository, ids));
            Program.part("delete", (jobs + 2) / 3, () -> end(repository, repository, ids, 0));
            Program.part("expire", (jobs + 1) / 3, () -> end(repository, repository, ids, 1));
            Program.equal((long) redis.keys("spring:session:sessions:expires:*").size(),
                    ids.stream().filter(id -> id != null).count(), "keys of sessions that remain");
        });
    }
}
