import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.ByteArrayOutputStream;
import java.io.StringReader;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.postgresql.PGConnection;
import org.postgresql.PGNotification;
import org.postgresql.largeobject.LargeObject;
import org.postgresql.largeobject.LargeObjectManager;

/** pgjdbc: every prepareThreshold and query mode, batches, fetch sizes, COPY, large objects, cancelling, notifications; alone and under HikariCP. */
public class Driver {
    static final int POOL_SIZE = Integer.parseInt(System.getenv("WEIR_POOL_SIZE"));
    /** More clients than the pooler has server connections. */
    static final int CLIENTS = POOL_SIZE * 2 + 2;
    static final String URL =
            "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/" + System.getenv("PGDATABASE");
    static final int[] THRESHOLDS = {0, 1, 5, -1};

    interface Scenario {
        void run() throws Exception;
    }

    interface Work {
        void with(int client) throws Exception;
    }

    interface Attempt {
        void run() throws SQLException;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Scenario> scenarios = new LinkedHashMap<>();
        for (int threshold : THRESHOLDS) {
            scenarios.put("prepareThreshold " + threshold, () -> prepared(threshold, "extended"));
        }
        for (String mode : List.of("simple", "extendedForPrepared", "extendedCacheEverything")) {
            scenarios.put("preferQueryMode " + mode, () -> prepared(5, mode));
        }
        scenarios.put("few statements at a time", Driver::fewStatementsAtATime);
        scenarios.put("batches", Driver::batches);
        scenarios.put("batches rewritten as one INSERT", Driver::rewrittenBatches);
        scenarios.put("fetch size in a transaction", Driver::fetchSize);
        scenarios.put("savepoints and autosave", Driver::savepoints);
        scenarios.put("result type changes", Driver::resultTypeChanges);
        scenarios.put("COPY", Driver::copy);
        scenarios.put("large objects", Driver::largeObjects);
        scenarios.put("query timeout", Driver::queryTimeout);
        scenarios.put("cancel", Driver::cancel);
        scenarios.put("session settings", Driver::sessionSettings);
        scenarios.put("notifications", Driver::notifications);
        scenarios.put("metadata and generated keys", Driver::metadata);
        scenarios.put("HikariCP", Driver::hikari);
        scenarios.put("no more server connections than the pool has", Driver::noMoreServerConnections);
        int failed = 0;
        for (Map.Entry<String, Scenario> scenario : scenarios.entrySet()) {
            try {
                scenario.getValue().run();
            } catch (Exception | AssertionError error) {
                failed++;
                System.out.println("FAILED: " + scenario.getKey());
                error.printStackTrace(System.out);
            }
        }
        System.out.println(scenarios.size() - failed + " passed, " + failed + " failed");
        System.exit(failed > 0 ? 1 : 0);
    }

    static Connection connect(String... settings) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", System.getenv("PGUSER"));
        properties.setProperty("password", System.getenv("PGPASSWORD"));
        properties.setProperty("sslmode", "disable");
        for (int at = 0; at < settings.length; at += 2) {
            properties.setProperty(settings[at], settings[at + 1]);
        }
        return DriverManager.getConnection(URL, properties);
    }

    static void byMany(Work work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(CLIENTS);
        List<Callable<Void>> all = new ArrayList<>();
        for (int number = 0; number < CLIENTS; number++) {
            int client = number;
            all.add(() -> {
                work.with(client);
                return null;
            });
        }
        try {
            for (Future<Void> done : threads.invokeAll(all)) {
                done.get();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    static void freshTable(String name, String columns) throws SQLException {
        try (Connection connection = connect(); Statement statement = connection.createStatement()) {
            statement.execute("DROP TABLE IF EXISTS " + name);
            statement.execute("CREATE TABLE " + name + " (" + columns + ")");
        }
    }

    static void equal(Object found, Object expected) {
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("found " + found + ", expected " + expected);
        }
    }

    static void refused(String state, Attempt attempt) throws SQLException {
        try {
            attempt.run();
        } catch (SQLException refusal) {
            if (!state.equals(refusal.getSQLState())) {
                throw refusal;
            }
            return;
        }
        throw new AssertionError("SQLSTATE " + state + " expected");
    }

    static PreparedStatement bind(Connection connection, String sql, Object... values) throws SQLException {
        PreparedStatement statement = connection.prepareStatement(sql);
        for (int at = 0; at < values.length; at++) {
            statement.setObject(at + 1, values[at]);
        }
        return statement;
    }

    static int update(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = bind(connection, sql, values)) {
            return statement.executeUpdate();
        }
    }

    /** The first column of the first row. */
    static Object value(Connection connection, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = bind(connection, sql, values); ResultSet rows = statement.executeQuery()) {
            equal(rows.next(), true);
            return rows.getObject(1);
        }
    }

    static void prepared(int threshold, String mode) throws Exception {
        String table = "jdbc_prepared_" + mode.toLowerCase() + (threshold + 1);
        freshTable(table, "id int PRIMARY KEY, client int, text text");
        byMany(client -> {
            try (Connection connection = connect("prepareThreshold", "" + threshold, "preferQueryMode", mode)) {
                for (int round = 0; round < 12; round++) {
                    int id = client * 100 + round;
                    connection.setAutoCommit(round % 2 == 0);
                    equal(update(connection, "INSERT INTO " + table + " VALUES (?, ?, ?)", id, client, "text " + id), 1);
                    equal(value(connection, "SELECT text FROM " + table + " WHERE id = ?", id), "text " + id);
                    equal(value(connection, "SELECT ?::int + " + client, round), round + client);
                    if (round % 2 == 1) {
                        connection.commit();
                    }
                    refused("23505", () -> update(connection, "INSERT INTO " + table + " VALUES (?, ?, ?)", id, client, ""));
                    if (round % 2 == 1) {
                        refused("25P02", () -> value(connection, "SELECT 1"));
                        connection.rollback();
                    }
                    refused("22012", () -> value(connection, "SELECT 1 / ?::int", 0));
                    if (round % 2 == 1) {
                        connection.rollback();
                    }
                }
                connection.setAutoCommit(true);
                equal(value(connection, "SELECT count(*) FROM " + table + " WHERE client = ?", client), 12L);
            }
        });
    }

    /** The driver closes old statements for new ones. */
    static void fewStatementsAtATime() throws Exception {
        byMany(client -> {
            try (Connection connection = connect("prepareThreshold", "1", "preparedStatementCacheQueries", "3")) {
                for (int n = 0; n < 60; n++) {
                    int number = n * 7 % 11;
                    equal(value(connection, "SELECT ?::int + " + number, client), client + number);
                }
            }
        });
    }

    static void batches() throws Exception {
        freshTable("jdbc_batches", "id int PRIMARY KEY, client int, text text");
        byMany(client -> insertBatches("jdbc_batches", client, "prepareThreshold", "" + THRESHOLDS[client % THRESHOLDS.length]));
    }

    static void rewrittenBatches() throws Exception {
        freshTable("jdbc_rewritten", "id int PRIMARY KEY, client int, text text");
        byMany(client -> insertBatches("jdbc_rewritten", client, "reWriteBatchedInserts", "true", "prepareThreshold", "" + client % 3));
    }

    static void insertBatches(String table, int client, String... settings) throws SQLException {
        String insert = "INSERT INTO " + table + " VALUES (?, ?, ?)";
        try (Connection connection = connect(settings)) {
            connection.setAutoCommit(false);
            for (int round = 0; round < 4; round++) {
                try (PreparedStatement statement = connection.prepareStatement(insert)) {
                    for (int n = 0; n < 300; n++) {
                        addRow(statement, client * 10000 + round * 300 + n, client);
                    }
                    equal(statement.executeBatch().length, 300);
                    connection.commit();
                    addRow(statement, client * 10000 + 9000, client);
                    addRow(statement, client * 10000, client);
                    addRow(statement, client * 10000 + 9001, client);
                    statement.executeBatch();
                    throw new AssertionError("a row that is there should be refused");
                } catch (BatchUpdateException refusal) {
                    equal(refusal.getSQLState(), "23505");
                    connection.rollback();
                }
            }
            equal(value(connection, "SELECT count(*) FROM " + table + " WHERE client = ?", client), 1200L);
            connection.commit();
        }
    }

    static void addRow(PreparedStatement statement, int id, int client) throws SQLException {
        statement.setInt(1, id);
        statement.setInt(2, client);
        statement.setString(3, "text " + id);
        statement.addBatch();
    }

    static void fetchSize() throws Exception {
        byMany(client -> {
            try (Connection connection = connect("prepareThreshold", "" + THRESHOLDS[client % THRESHOLDS.length])) {
                connection.setAutoCommit(false);
                for (int round = 0; round < 3; round++) {
                    try (PreparedStatement statement = bind(connection, "SELECT n * ? FROM generate_series(1, 500) n", client)) {
                        statement.setFetchSize(33);
                        try (ResultSet rows = statement.executeQuery()) {
                            int sum = 0;
                            while (rows.next()) {
                                sum += rows.getInt(1);
                                if (rows.getRow() % 100 == 0) {
                                    equal(value(connection, "SELECT ?::int", rows.getRow()), rows.getRow());
                                }
                            }
                            equal(sum, client * 125250);
                        }
                    }
                    refused("22012", () -> {
                        try (PreparedStatement statement = bind(connection, "SELECT 1 / (50 - n) FROM generate_series(1, 99) n")) {
                            statement.setFetchSize(10);
                            try (ResultSet rows = statement.executeQuery()) {
                                while (rows.next()) {
                                    rows.getInt(1);
                                }
                            }
                        }
                    });
                    connection.rollback();
                }
            }
        });
    }

    static void savepoints() throws Exception {
        freshTable("jdbc_savepoints", "id int PRIMARY KEY, client int");
        byMany(client -> {
            try (Connection connection = connect("autosave", client % 2 == 0 ? "always" : "never", "prepareThreshold", "1")) {
                connection.setAutoCommit(false);
                for (int n = 0; n < 8; n++) {
                    int id = client * 100 + n;
                    update(connection, "INSERT INTO jdbc_savepoints VALUES (?, ?)", id, client);
                    Savepoint savepoint = connection.setSavepoint("here");
                    refused("23505", () -> update(connection, "INSERT INTO jdbc_savepoints VALUES (?, ?)", id, client));
                    connection.rollback(savepoint);
                    equal(value(connection, "SELECT count(*) FROM jdbc_savepoints WHERE client = ?", client), n + 1L);
                    connection.commit();
                }
            }
        });
    }

    /** The driver itself prepares anew when the server says that a plan no longer fits. */
    static void resultTypeChanges() throws Exception {
        freshTable("jdbc_changes", "a int");
        try (Connection connection = connect("prepareThreshold", "1"); Connection other = connect()) {
            update(other, "INSERT INTO jdbc_changes VALUES (1)");
            for (int columns = 1; columns < 5; columns++) {
                for (int n = 0; n < 3; n++) {
                    try (PreparedStatement statement = bind(connection, "SELECT * FROM jdbc_changes"); ResultSet rows = statement.executeQuery()) {
                        equal(rows.next(), true);
                        equal(rows.getMetaData().getColumnCount(), columns);
                    }
                }
                update(other, "ALTER TABLE jdbc_changes ADD column_" + columns + " int");
            }
        }
    }

    static void copy() throws Exception {
        freshTable("jdbc_copy", "client int, n int, text text");
        byMany(client -> {
            StringBuilder lines = new StringBuilder();
            for (int n = 0; n < 4000; n++) {
                lines.append(client).append('\t').append(n).append("\ttext ").append(n).append('\n');
            }
            try (Connection connection = connect()) {
                var copies = connection.unwrap(PGConnection.class).getCopyAPI();
                equal(copies.copyIn("COPY jdbc_copy FROM STDIN", new StringReader(lines.toString())), 4000L);
                refused("22P02", () -> {
                    try {
                        copies.copyIn("COPY jdbc_copy FROM STDIN", new StringReader("no number\n"));
                    } catch (java.io.IOException error) {
                        throw new SQLException(error);
                    }
                });
                var givenUp = copies.copyIn("COPY jdbc_copy FROM STDIN");
                givenUp.writeToCopy(new byte[] {'1', '\t'}, 0, 2);
                givenUp.cancelCopy();
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                equal(copies.copyOut("COPY (SELECT * FROM jdbc_copy WHERE client = " + client + " ORDER BY n) TO STDOUT", out), 4000L);
                equal(out.toString(), lines.toString());
            }
        });
    }

    /** By fastpath: FunctionCall messages, in a transaction. */
    static void largeObjects() throws Exception {
        byMany(client -> {
            byte[] data = new byte[300_000];
            Arrays.fill(data, (byte) client);
            try (Connection connection = connect()) {
                connection.setAutoCommit(false);
                LargeObjectManager objects = connection.unwrap(PGConnection.class).getLargeObjectAPI();
                long number = objects.createLO();
                try (LargeObject object = objects.open(number, LargeObjectManager.WRITE)) {
                    object.write(data);
                }
                connection.commit();
                try (LargeObject object = objects.open(number, LargeObjectManager.READ)) {
                    equal(object.size(), data.length);
                    object.seek(data.length - 3);
                    equal(object.read(10).length, 3);
                    object.seek(0);
                    equal(Arrays.equals(object.read(data.length), data), true);
                }
                connection.commit();
                objects.delete(number);
                connection.commit();
                refused("42704", () -> objects.open(number, LargeObjectManager.READ).read(1));
                connection.rollback();
                equal(value(connection, "SELECT ?::int", client), client);
                connection.rollback();
            }
        });
    }

    /** The driver cancels by a cancel request when the time is over; those that still wait for a server connection as well. */
    static void queryTimeout() throws Exception {
        byMany(client -> {
            try (Connection connection = connect("prepareThreshold", "" + client % 3)) {
                for (int n = 0; n < 2; n++) {
                    try (PreparedStatement statement = bind(connection, "SELECT pg_sleep(64)")) {
                        statement.setQueryTimeout(1);
                        refused("57014", statement::executeQuery);
                    }
                    equal(value(connection, "SELECT ?::int", n), n);
                }
            }
        });
    }

    static void cancel() throws Exception {
        try (Connection connection = connect(); Connection observer = connect(); Statement statement = connection.createStatement()) {
            for (int n = 0; n < 5; n++) {
                String sleep = "SELECT pg_sleep(65), 'cancelled " + n + "'";
                ExecutorService thread = Executors.newSingleThreadExecutor();
                Future<Boolean> refused = thread.submit(() -> {
                    refused("57014", () -> statement.executeQuery(sleep));
                    return true;
                });
                long deadline = System.nanoTime() + 20_000_000_000L;
                while (value(observer, "SELECT count(*) FROM pg_stat_activity WHERE query = ? AND state = 'active'", sleep).equals(0L)) {
                    if (System.nanoTime() > deadline) {
                        throw new AssertionError("the statement did not start");
                    }
                }
                statement.cancel();
                equal(refused.get(), true);
                thread.shutdown();
                equal(value(connection, "SELECT ?::int", n), n);
                statement.cancel(); // too late: it must not hit what comes next
                equal(value(connection, "SELECT ?::int", n), n);
            }
        }
    }

    static void sessionSettings() throws Exception {
        byMany(client -> {
            try (Connection connection = connect("ApplicationName", "client " + client)) {
                equal(value(connection, "SHOW application_name"), "client " + client);
                connection.setClientInfo("ApplicationName", "renamed " + client);
                update(connection, "SET TimeZone = 'Etc/GMT-" + client + "'");
                for (int n = 0; n < 10; n++) {
                    equal(value(connection, "SHOW application_name"), "renamed " + client);
                    equal(value(connection, "SHOW TimeZone"), "Etc/GMT-" + client);
                }
                connection.setAutoCommit(false);
                // The driver's setTransactionIsolation would set it for the session, which no pooler in transaction mode can keep to one client.
                update(connection, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
                update(connection, "SET LOCAL statement_timeout = 20");
                refused("57014", () -> value(connection, "SELECT pg_sleep(66)"));
                connection.rollback();
                equal(value(connection, "SELECT ?::int", client), client);
                connection.rollback();
            }
        });
    }

    /** The payloads of the next notifications. */
    static List<String> received(Connection connection, int count) throws SQLException {
        List<String> payloads = new ArrayList<>();
        while (payloads.size() < count) {
            PGNotification[] more = connection.unwrap(PGConnection.class).getNotifications(20_000);
            if (more == null || more.length == 0) {
                throw new AssertionError("no notification for 20 seconds; before: " + payloads);
            }
            for (PGNotification notification : more) {
                payloads.add(notification.getParameter());
            }
        }
        return payloads;
    }

    /** More clients listen than there are server connections; with and without transactions of their own. */
    static void notifications() throws Exception {
        CountDownLatch listening = new CountDownLatch(CLIENTS);
        Thread notifier = new Thread(() -> {
            try (Connection connection = connect()) {
                listening.await();
                connection.setAutoCommit(false);
                for (int n = 0; n < 50; n++) {
                    value(connection, "SELECT pg_notify('jdbc_all', ?)", "first " + n);
                    value(connection, "SELECT pg_notify('jdbc_all', ?)", "second " + n);
                    connection.commit();
                }
            } catch (Exception error) {
                error.printStackTrace(System.out); // and nobody gets what it waits for
            }
        });
        notifier.start();
        byMany(client -> {
            try (Connection connection = connect("prepareThreshold", "" + client % 2)) {
                update(connection, "LISTEN jdbc_all");
                update(connection, "LISTEN jdbc_" + client);
                listening.countDown();
                connection.setAutoCommit(client % 2 == 0);
                for (int n = 0; n < 50; n++) {
                    List<String> payloads = new ArrayList<>(received(connection, 1));
                    // Both are of one transaction; the driver may have seen only the first yet.
                    while (payloads.size() % 2 == 1) {
                        payloads.addAll(received(connection, 1));
                    }
                    for (int at = 0; at < payloads.size(); at += 2) {
                        equal(payloads.subList(at, at + 2), List.of("first " + (n + at / 2), "second " + (n + at / 2)));
                    }
                    n += payloads.size() / 2 - 1;
                    equal(value(connection, "SELECT ?::int", client), client);
                    if (client % 2 == 1) {
                        connection.commit();
                    }
                }
                connection.setAutoCommit(true);
                update(connection, "UNLISTEN jdbc_all");
                update(connection, "NOTIFY jdbc_all, 'not for " + client + "'");
                update(connection, "NOTIFY jdbc_" + client + ", 'for me'");
                // Before its UNLISTEN others may have sent theirs.
                List<String> payloads = new ArrayList<>();
                while (!payloads.contains("for me")) {
                    payloads.addAll(received(connection, 1));
                }
                equal(payloads.contains("not for " + client), false);
            }
        });
        notifier.join();
    }

    static void metadata() throws Exception {
        freshTable("jdbc_metadata", "id serial PRIMARY KEY, name varchar(10) NOT NULL");
        byMany(client -> {
            try (Connection connection = connect("prepareThreshold", "" + client % 2)) {
                for (int n = 0; n < 5; n++) {
                    try (ResultSet columns = connection.getMetaData().getColumns(null, null, "jdbc_metadata", null)) {
                        equal(columns.next(), true);
                        equal(columns.getString("COLUMN_NAME"), "id");
                    }
                    try (PreparedStatement statement = connection.prepareStatement(
                            "INSERT INTO jdbc_metadata (name) VALUES (?)", Statement.RETURN_GENERATED_KEYS)) {
                        statement.setString(1, "" + client);
                        statement.executeUpdate();
                        try (ResultSet keys = statement.getGeneratedKeys()) {
                            equal(keys.next(), true);
                            equal(value(connection, "SELECT name FROM jdbc_metadata WHERE id = ?", keys.getInt("id")), "" + client);
                        }
                    }
                    try (PreparedStatement statement = connection.prepareStatement("SELECT * FROM jdbc_metadata WHERE id = ?")) {
                        equal(statement.getMetaData().getColumnCount(), 2);
                        equal(statement.getParameterMetaData().getParameterTypeName(1), "int4");
                    }
                }
            }
        });
    }

    static void hikari() throws Exception {
        freshTable("jdbc_hikari", "id int PRIMARY KEY, client int");
        HikariConfig config = new HikariConfig();
        config.setJdbcUrl(URL);
        config.setUsername(System.getenv("PGUSER"));
        config.setPassword(System.getenv("PGPASSWORD"));
        config.addDataSourceProperty("sslmode", "disable");
        config.setMaximumPoolSize(CLIENTS);
        config.setMinimumIdle(CLIENTS);
        config.setAutoCommit(false);
        config.setConnectionTimeout(20_000);
        try (HikariDataSource pool = new HikariDataSource(config)) {
            byMany(client -> {
                for (int n = 0; n < 30; n++) {
                    try (Connection connection = pool.getConnection()) {
                        update(connection, "INSERT INTO jdbc_hikari VALUES (?, ?)", client * 100 + n, client);
                        connection.commit();
                        // Without commit: HikariCP rolls back.
                        update(connection, "DELETE FROM jdbc_hikari WHERE client = ?", client);
                    }
                    try (Connection connection = pool.getConnection()) {
                        connection.setReadOnly(true);
                        refused("25006", () -> update(connection, "DELETE FROM jdbc_hikari"));
                    }
                    try (Connection connection = pool.getConnection()) {
                        equal(value(connection, "SELECT count(*) FROM jdbc_hikari WHERE client = ?", client), n + 1L);
                        refused("22012", () -> value(connection, "SELECT 1 / ?::int", 0));
                    }
                }
            });
            try (Connection connection = pool.getConnection()) {
                equal(value(connection, "SELECT count(*) FROM jdbc_hikari"), CLIENTS * 30L);
            }
        }
    }

    static void noMoreServerConnections() throws Exception {
        try (Connection connection = connect()) {
            long count = (Long) value(connection, "SELECT count(*) FROM pg_stat_activity WHERE usename = current_user");
            equal(count <= POOL_SIZE, true);
        }
    }
}
