import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.configuration.FluentConfiguration;

/** Flyway: several that start together, of which one migrates while the others wait for its advisory lock, of either kind. */
public class Driver {
    static final String DIRECT = url(System.getenv("WEIR_DIRECT_PORT"));
    static final String POOLED = url(System.getenv("PGPORT"));
    /** Each may have three connections, two of them in transactions or with the lock: together more than the pool has. */
    static final int TOGETHER = 4;
    /** Longer than a migration, shorter than the patience of `run`. */
    static final int WAIT_SECONDS = 30;

    static String url(String port) {
        return "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + port + "/" + System.getenv("PGDATABASE");
    }

    static Connection connect(String url) throws Exception {
        return DriverManager.getConnection(url, System.getenv("PGUSER"), System.getenv("PGPASSWORD"));
    }

    static String value(String sql) throws Exception {
        try (Connection connection = connect(DIRECT); ResultSet rows = connection.createStatement().executeQuery(sql)) {
            rows.next();
            return rows.getString(1);
        }
    }

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    static Flyway flyway(String url, boolean transactionalLock, String divisor, String... locations) {
        FluentConfiguration configuration = Flyway.configure()
                .dataSource(url, System.getenv("PGUSER"), System.getenv("PGPASSWORD"))
                .configuration(Map.of("flyway.postgresql.transactional.lock", String.valueOf(transactionalLock)))
                .locations(locations)
                .placeholders(Map.of("divisor", divisor))
                .lockRetryCount(WAIT_SECONDS)
                .cleanDisabled(false);
        return configuration.load();
    }

    /** How many migrations those that start together have executed. Each takes the lock anew for every migration. */
    static int migrateTogether(boolean transactionalLock, String... locations) throws Exception {
        CountDownLatch ready = new CountDownLatch(TOGETHER);
        ExecutorService threads = Executors.newFixedThreadPool(TOGETHER);
        List<Future<Integer>> results = new ArrayList<>();
        for (int n = 0; n < TOGETHER; n++) {
            results.add(threads.submit(() -> {
                Flyway flyway = flyway(POOLED, transactionalLock, "1", locations);
                ready.countDown();
                ready.await();
                return flyway.migrate().migrationsExecuted;
            }));
        }
        int executed = 0;
        for (Future<Integer> result : results) {
            executed += result.get();
        }
        threads.shutdown();
        return executed;
    }

    static void noLockIsLeft() throws Exception {
        equal(value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), "0");
    }

    static void lockOfATransaction() throws Exception {
        equal(migrateTogether(true, "filesystem:migrations/early"), 3);
        equal(value("SELECT string_agg(version::text, ' ' ORDER BY at) FROM runs"), "1 2");
        noLockIsLeft();
    }

    /** As Flyway's manual advises for CREATE INDEX CONCURRENTLY. */
    static void lockOfASession() throws Exception {
        equal(migrateTogether(false, "filesystem:migrations"), 3);
        equal(value("SELECT string_agg(version::text, ' ' ORDER BY at) FROM runs"), "1 2 4 5");
        equal(value("SELECT indisvalid FROM pg_index WHERE indexrelid = 'runs_version'::regclass"), "t");
        noLockIsLeft();
    }

    static void asItIsDirectly() throws Exception {
        Flyway pooled = flyway(POOLED, false, "1", "filesystem:migrations");
        String history = "SELECT string_agg(concat_ws(' ', installed_rank, version, description, script, checksum, success), '; ' ORDER BY installed_rank)"
                + " FROM flyway_schema_history";
        String found = value(history);
        pooled.validate();
        equal(pooled.info().pending().length, 0);
        flyway(DIRECT, false, "1", "filesystem:migrations").validate();
        pooled.clean();
        equal(value("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"), "0");
        flyway(DIRECT, true, "1", "filesystem:migrations/early").migrate();
        flyway(DIRECT, false, "1", "filesystem:migrations").migrate();
        equal(found, value(history));
        pooled.clean();
    }

    /** A migration that fails leaves neither itself nor the lock; the next attempt succeeds. */
    static void failure() throws Exception {
        for (int attempt = 0; attempt < 2; attempt++) {
            try {
                flyway(POOLED, false, "0", "filesystem:migrations").migrate();
                throw new AssertionError("a division by zero expected");
            } catch (FlywayException expected) {
                equal(expected.getMessage().contains("division by zero"), true);
            }
            equal(value("SELECT count(*) FROM runs WHERE version = 5"), "0");
            noLockIsLeft();
        }
        equal(flyway(POOLED, false, "1", "filesystem:migrations").migrate().migrationsExecuted, 2);
        equal(value("SELECT count(*) FROM runs WHERE version = 5"), "1");
    }

    interface Scenario {
        void run() throws Exception;
    }

    static int failures(String name, Scenario scenario) {
        try {
            scenario.run();
            return 0;
        } catch (Throwable error) {
            System.out.println("FAILED: " + name);
            error.printStackTrace(System.out);
            return 1;
        }
    }

    public static void main(String[] arguments) throws Exception {
        int failed = failures("lock of a transaction", Driver::lockOfATransaction)
                + failures("lock of a session", Driver::lockOfASession)
                + failures("as it is directly", Driver::asItIsDirectly)
                + failures("failure", Driver::failure);
        System.out.println((4 - failed) + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }
}
