"""psycopg 3: threads and tasks, every prepare_threshold, pipelines, COPY, named cursors, pools, cancelling, notifications and a job queue."""

import asyncio
import logging
import threading
import time

import psycopg
from psycopg import errors, sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from scenarios import CLIENTS, POOL_SIZE, by_many, by_many_tasks, equal, run

# It warns of pipelines that end with an error, which here is meant.
logging.getLogger("psycopg").setLevel(logging.ERROR)

# Connections find everything in libpq's environment variables.
EVERYTHING = ""


def connect(**settings):
    return psycopg.connect(EVERYTHING, **settings)


def fresh_table(name, columns="id int PRIMARY KEY, client int, text text"):
    with connect(autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} ({columns})")


def expect(error, connection, query, parameters=None):
    try:
        connection.execute(query, parameters)
    except error:
        return
    raise AssertionError(f"{query} should fail with {error.__name__}")


def work_with_threshold(threshold):
    table = f"psycopg_threshold_{threshold}".lower()
    fresh_table(table)

    def work(client):
        with connect(prepare_threshold=threshold) as connection:
            for round in range(12):
                id = client * 100 + round
                connection.execute(f"INSERT INTO {table} VALUES (%s, %s, %s)", (id, client, f"text {id}"))
                row = connection.execute(f"SELECT client, text FROM {table} WHERE id = %s", (id,)).fetchone()
                equal(row, (client, f"text {id}"))
                if round % 3 == 2:
                    connection.commit()
                    expect(errors.UniqueViolation, connection, f"INSERT INTO {table} VALUES (%s, %s, %s)", (id, client, ""))
                    expect(errors.InFailedSqlTransaction, connection, "SELECT 1")
                    connection.rollback()
                    expect(errors.DivisionByZero, connection, "SELECT %s / %s", (round, 0))
                    connection.rollback()
            rows = connection.execute(f"SELECT count(*), sum(id) FROM {table} WHERE client = %s", (client,)).fetchone()
            equal(rows, (12, client * 1200 + 66))

    by_many(work)


def prepared_from_the_first_time():
    work_with_threshold(0)


def prepared_from_the_second_time():
    work_with_threshold(1)


def prepared_by_default():
    work_with_threshold(5)


def never_prepared():
    work_with_threshold(None)


def few_prepared_at_a_time():
    """The driver closes its oldest statement for each new one."""

    def work(client):
        with connect(autocommit=True, prepare_threshold=0) as connection:
            connection.prepared_max = 4
            for round in range(60):
                number = round * 7 % 11
                row = connection.execute(f"SELECT %s::int + {number} AS sum_{number}", (client,)).fetchone()
                equal(row, (client + number,))

    by_many(work)


def same_name_for_other_statements():
    """All clients name their statements _pg3_0, _pg3_1 and so on; each means its own."""

    def work(client):
        with connect(autocommit=True, prepare_threshold=0) as connection:
            for _ in range(20):
                for number in range(5):
                    query = f"SELECT '{client}.{number}', %s::int, %s::text"
                    equal(connection.execute(query, (client, "t")).fetchone(), (f"{client}.{number}", client, "t"))

    by_many(work)


def result_type_changes():
    """The table behind a prepared statement gets another column: each server connection refuses the statement once, then prepares it anew."""
    fresh_table("psycopg_changes", "a int")
    with connect(autocommit=True) as other:
        other.execute("INSERT INTO psycopg_changes VALUES (1)")

    def select(connection):
        return connection.execute("SELECT * FROM psycopg_changes").fetchall()

    def work(client):
        with connect(autocommit=True, prepare_threshold=0) as connection:
            equal(select(connection), [(1,)])
            prepared.wait(20)
            changed.wait(20)
            refused = 0
            for _ in range(30):
                try:
                    equal(select(connection), [(1, "b")])
                except errors.FeatureNotSupported:
                    refused += 1
            return refused

    def change():
        prepared.wait(20)
        with connect(autocommit=True) as other:
            other.execute("ALTER TABLE psycopg_changes ADD b text DEFAULT 'b'")
        changed.wait(20)

    prepared = threading.Barrier(CLIENTS + 1)
    changed = threading.Barrier(CLIENTS + 1)
    changer = threading.Thread(target=change)
    changer.start()
    refused = sum(by_many(work))
    changer.join()
    if refused > POOL_SIZE:
        raise AssertionError(f"{refused} statements refused by {POOL_SIZE} server connections")


def types_text_and_binary():
    values = [1, 2**40, 1.5, "text ü € \U0001f980", b"\x00\xff bytes", True, None, [1, 2, 3], [["a", None], ["b", "c"]], Jsonb({"a": [1, None]})]
    casts = ["int", "bigint", "float8", "text", "bytea", "bool", "text", "int[]", "text[]", "jsonb"]

    def work(client):
        with connect(autocommit=True, prepare_threshold=client % 3) as connection:
            for binary in (False, True):
                for _ in range(3):
                    query = "SELECT " + ", ".join(f"%s::{cast}" for cast in casts)
                    row = connection.execute(query, values, binary=binary).fetchone()
                    equal(row, tuple(values[:-1]) + ({"a": [1, None]},))

    by_many(work)


def executemany_with_results():
    fresh_table("psycopg_many")

    def work(client):
        with connect() as connection, connection.cursor() as cursor:
            rows = [(client * 1000 + n, client, "x" * n) for n in range(200)]
            cursor.executemany("INSERT INTO psycopg_many VALUES (%s, %s, %s) RETURNING id", rows, returning=True)
            ids = []
            while True:
                ids.append(cursor.fetchone()[0])
                if not cursor.nextset():
                    break
            equal(ids, [row[0] for row in rows])
            connection.commit()
            try:
                cursor.executemany("INSERT INTO psycopg_many VALUES (%s, %s, %s)", [(client * 1000 + 500, client, ""), rows[7], rows[8]])
                raise AssertionError("a row that is there should be refused")
            except errors.UniqueViolation:
                connection.rollback()
            equal(connection.execute("SELECT count(*) FROM psycopg_many WHERE client = %s", (client,)).fetchone(), (200,))

    by_many(work)


def pipelines():
    fresh_table("psycopg_pipeline")

    def work(client):
        with connect(autocommit=True, prepare_threshold=client % 2) as connection:
            for round in range(5):
                with connection.pipeline():
                    cursors = [connection.execute("SELECT %s::int * %s", (n, client)) for n in range(100)]
                    equal([cursor.fetchone()[0] for cursor in cursors], [n * client for n in range(100)])
                with connection.pipeline(), connection.transaction():
                    for n in range(10):
                        connection.execute("INSERT INTO psycopg_pipeline VALUES (%s, %s, '')", (client * 1000 + round * 10 + n, client))
            equal(connection.execute("SELECT count(*) FROM psycopg_pipeline WHERE client = %s", (client,)).fetchone(), (50,))

    by_many(work)


def errors_in_pipelines():
    def work(client):
        with connect(autocommit=True, prepare_threshold=client % 2) as connection:
            for _ in range(5):
                try:
                    with connection.pipeline() as pipeline:
                        before = connection.execute("SELECT %s::int", (client,))
                        pipeline.sync()
                        connection.execute("SELECT 1 / %s::int", (0,))
                        connection.execute("SELECT 'skipped' || %s", ("",))
                    raise AssertionError("a division by zero expected")
                except errors.DivisionByZero:
                    equal(before.fetchone(), (client,))
                with connection.pipeline():
                    after = connection.execute("SELECT 'after' || %s", (client,))
                equal(after.fetchone(), (f"after{client}",))
                equal(connection.execute("SELECT %s::text", ("outside",)).fetchone(), ("outside",))

    by_many(work)


def savepoints():
    fresh_table("psycopg_savepoints")

    def work(client):
        with connect() as connection:
            with connection.transaction():
                connection.execute("INSERT INTO psycopg_savepoints VALUES (%s, %s, 'kept')", (client * 10, client))
                for n in range(1, 4):
                    try:
                        with connection.transaction():
                            connection.execute("INSERT INTO psycopg_savepoints VALUES (%s, %s, 'lost')", (client * 10 + n, client))
                            connection.execute("INSERT INTO psycopg_savepoints VALUES (%s, %s, 'again')", (client * 10, client))
                    except errors.UniqueViolation:
                        pass
            equal(connection.execute("SELECT array_agg(text) FROM psycopg_savepoints WHERE client = %s", (client,)).fetchone(), (["kept"],))

    by_many(work)


def copy_both_ways():
    fresh_table("psycopg_copy", "client int, n int, data bytea")

    def work(client):
        rows = [(client, n, bytes([n % 256]) * n) for n in range(700)]
        with connect() as connection, connection.cursor() as cursor:
            for options, number in (("", 0), ("(FORMAT binary)", 1)):
                with cursor.copy(f"COPY psycopg_copy FROM STDIN {options}") as copy:
                    copy.set_types(["int4", "int4", "bytea"])
                    for row in rows:
                        copy.write_row(row)
                equal(cursor.rowcount, 700)
                with cursor.copy(f"COPY (SELECT * FROM psycopg_copy WHERE client = {client} ORDER BY n) TO STDOUT {options}") as copy:
                    copy.set_types(["int4", "int4", "bytea"])
                    equal(list(copy.rows()), sorted(rows * (number + 1)))
            connection.commit()
            try:
                with cursor.copy("COPY psycopg_copy FROM STDIN") as copy:
                    copy.write(b"not a number\t1\t\n")
                raise AssertionError("a line that is no row should be refused")
            except errors.InvalidTextRepresentation:
                connection.rollback()
            try:
                with cursor.copy("COPY psycopg_copy FROM STDIN") as copy:
                    copy.write_row((client, 1, b""))
                    raise KeyError("the program gives up")
            except (KeyError, errors.QueryCanceled):
                connection.rollback()
            equal(cursor.execute("SELECT count(*) FROM psycopg_copy WHERE client = %s", (client,)).fetchone(), (1400,))
        with connect(autocommit=True) as connection, connection.cursor() as cursor:
            with cursor.copy("COPY (SELECT repeat('y', 1000000) FROM generate_series(1, 3)) TO STDOUT") as copy:
                equal(sum(len(bytes(part)) for part in copy), 3_000_003)

    by_many(work)


def named_cursors():
    def work(client):
        with connect() as connection:
            for _ in range(3):
                with connection.cursor(name=f"c{client % 2}") as cursor:
                    cursor.itersize = 50
                    cursor.execute("SELECT n * %s FROM generate_series(1, 500) n", (client,))
                    equal([row[0] for row in cursor], [n * client for n in range(1, 501)])
                with connection.cursor(name="scrolls", scrollable=True) as cursor:
                    cursor.execute("SELECT n FROM generate_series(0, 99) n")
                    cursor.scroll(40)
                    equal(cursor.fetchmany(3), [(40,), (41,), (42,)])
                    cursor.scroll(-2)
                    equal(cursor.fetchone(), (41,))
                connection.commit()

    by_many(work)


def bound_by_the_client():
    def work(client):
        with connect(cursor_factory=psycopg.ClientCursor, row_factory=dict_row) as connection:
            for n in range(10):
                row = connection.execute("SELECT %s AS client, %s AS text; SELECT 2 AS two", (client, f"it's {n}")).fetchone()
                equal(row, {"client": client, "text": f"it's {n}"})
        with connect(cursor_factory=psycopg.RawCursor, autocommit=True) as connection:
            for n in range(10):
                equal(connection.execute("SELECT $1::int, $1::int + $2::int", (client, n)).fetchone(), (client, client + n))

    by_many(work)


def reported_settings():
    zones = ["UTC", "Asia/Kathmandu", "America/Caracas", "Australia/Eucla"]
    hours = ["12:00:00+00", "17:45:00+05:45", "08:00:00-04", "20:45:00+08:45"]

    def work(client):
        name = f"client {client}"
        with connect(autocommit=True, application_name=name) as connection:
            connection.execute(f"SET TimeZone = '{zones[client % 4]}'")
            for _ in range(15):
                found = connection.execute("SELECT timestamptz '2024-02-29 12:00+00'::text, current_setting('application_name')").fetchone()
                equal(found[0][11:], hours[client % 4])
                equal(found[1], name)
            equal(connection.info.parameter_status("TimeZone"), zones[client % 4])

    by_many(work)


def wait_until_sleeping(connection, marker):
    """Until the server runs the statement with this marker."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND state = 'active' AND pid <> pg_backend_pid()"
    deadline = time.monotonic() + 20
    while connection.execute(query, (f"SELECT pg_sleep(60), '{marker}'%",)).fetchone()[0] == 0:
        if time.monotonic() > deadline:
            raise AssertionError(f"{marker} did not start")
        time.sleep(0.02)


def cancelling():
    def work(client):
        marker = f"cancel {client}"
        with connect(autocommit=True) as connection, connect(autocommit=True) as other:

            def cancel():
                wait_until_sleeping(other, marker)
                connection.cancel_safe(timeout=20)

            canceller = threading.Thread(target=cancel)
            canceller.start()
            expect(errors.QueryCanceled, connection, f"SELECT pg_sleep(60), '{marker}'")
            canceller.join()
            for n in range(20):
                equal(connection.execute("SELECT %s::int", (n,)).fetchone(), (n,))

    # Fewer sleepers than server connections, so that those who look find one.
    threads = [threading.Thread(target=keep_error, args=(work, client, found := [])) for client in range(POOL_SIZE - 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(found, [])


def keep_error(work, client, found):
    try:
        work(client)
    except BaseException as error:
        found.append(repr(error))


def received(connection, count):
    """The payloads of the next notifications."""
    found = []
    while len(found) < count:
        more = [notification.payload for notification in connection.notifies(timeout=20, stop_after=1)]
        if not more:
            raise AssertionError(f"no notification for 20 seconds; before: {found}")
        found += more
    return found


def notifications():
    """More clients listen than there are server connections."""
    listeners = [connect(autocommit=True) for _ in range(CLIENTS)]
    try:
        for number, listener in enumerate(listeners):
            listener.execute("LISTEN psycopg_all")
            listener.execute(f"LISTEN psycopg_{number}")
        with connect(autocommit=True) as notifier:
            for n in range(30):
                with notifier.transaction():
                    notifier.execute("SELECT pg_notify('psycopg_all', %s)", (f"all {n}",))
                    for number in range(CLIENTS):
                        notifier.execute("SELECT pg_notify(%s, %s)", (f"psycopg_{number}", f"{number} {n}"))
        for number, listener in enumerate(listeners):
            equal(received(listener, 60), [payload for n in range(30) for payload in (f"all {n}", f"{number} {n}")])
        own = listeners[0]
        own.execute("NOTIFY psycopg_all, 'own'")
        equal([(it.pid, it.payload) for it in own.notifies(timeout=20, stop_after=1)], [(own.info.backend_pid, "own")])
        for listener in listeners[1:]:
            equal(received(listener, 1), ["own"])
        own.execute("UNLISTEN psycopg_all")
        own.execute("NOTIFY psycopg_all, 'not for me'")
        equal(list(own.notifies(timeout=0.1)), [])
        equal(received(listeners[1], 1), ["not for me"])
    finally:
        for listener in listeners:
            listener.close()


def job_queue():
    """Whoever is notified takes jobs until there are none; nobody looks without having been told."""
    fresh_table("psycopg_jobs", "id int PRIMARY KEY, done_by int")
    jobs = 200
    take = """
        UPDATE psycopg_jobs SET done_by = %s
        WHERE id = (SELECT id FROM psycopg_jobs WHERE done_by IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING id
    """

    def work(worker):
        with connect(autocommit=True) as connection:
            connection.execute("LISTEN psycopg_jobs")
            listening.wait(20)
            taken = []
            while "end" not in received(connection, 1):
                while job := connection.execute(take, (worker,)).fetchone():
                    taken.append(job[0])
            return taken

    def produce():
        listening.wait(20)
        with connect() as connection:
            for job in range(jobs):
                connection.execute("INSERT INTO psycopg_jobs VALUES (%s)", (job,))
                connection.execute("SELECT pg_notify('psycopg_jobs', %s)", (f"job {job}",))
                connection.commit()
            connection.execute("NOTIFY psycopg_jobs, 'end'")
            connection.commit()

    listening = threading.Barrier(CLIENTS + 1)
    producer = threading.Thread(target=produce)
    producer.start()
    taken = by_many(work)
    producer.join()
    equal(sorted(job for jobs in taken for job in jobs), list(range(jobs)))


def pool_of_connections():
    fresh_table("psycopg_pool")
    with ConnectionPool(EVERYTHING, min_size=CLIENTS, max_size=CLIENTS, check=ConnectionPool.check_connection) as pool:
        pool.wait(20)

        def work(client):
            for n in range(20):
                with pool.connection() as connection:
                    connection.execute("INSERT INTO psycopg_pool VALUES (%s, %s, '')", (client * 100 + n, client))
                try:
                    with pool.connection() as connection:
                        connection.execute("DELETE FROM psycopg_pool")
                        connection.execute("SELECT 1 / 0")
                except errors.DivisionByZero:
                    pass

        by_many(work)
        with pool.connection() as connection:
            equal(connection.execute("SELECT count(*) FROM psycopg_pool").fetchone(), (CLIENTS * 20,))


async def async_connections():
    async def work(client):
        async with await psycopg.AsyncConnection.connect(EVERYTHING, prepare_threshold=client % 3) as connection:
            for n in range(20):
                cursor = await connection.execute("SELECT %s::int, %s::text", (n, f"client {client}"))
                equal(await cursor.fetchone(), (n, f"client {client}"))
                if n % 5 == 4:
                    try:
                        await connection.execute("SELECT 1 / %s::int", (0,))
                        raise AssertionError("a division by zero expected")
                    except errors.DivisionByZero:
                        await connection.rollback()
            async with connection.cursor(name="c") as cursor:
                await cursor.execute("SELECT n FROM generate_series(1, 300) n")
                equal([row[0] async for row in cursor], list(range(1, 301)))
            async with connection.cursor() as cursor, cursor.copy("COPY (SELECT generate_series(1, 100)) TO STDOUT") as copy:
                equal([int(row[0]) async for row in copy.rows()], list(range(1, 101)))

    await by_many_tasks(work)


async def async_pipelines():
    async def work(client):
        async with await psycopg.AsyncConnection.connect(EVERYTHING, autocommit=True) as connection:
            for _ in range(3):
                async with connection.pipeline():
                    cursors = [await connection.execute("SELECT %s::int + %s", (n, client)) for n in range(50)]
                    equal([(await cursor.fetchone())[0] for cursor in cursors], [n + client for n in range(50)])

    await by_many_tasks(work)


async def async_pool_and_tasks_that_give_up():
    async with AsyncConnectionPool(EVERYTHING, kwargs={"autocommit": True}, min_size=CLIENTS, max_size=CLIENTS, open=False) as pool:
        await pool.wait(20)

        async def work(client):
            for n in range(5):
                try:
                    # The driver cancels the statement on the server when the task is cancelled.
                    # In one message: with a BEGIN before it, the driver could cancel that and then send the statement.
                    async with asyncio.timeout(0.05), pool.connection() as connection:
                        await connection.execute("SELECT pg_sleep(30)")
                    raise AssertionError("a timeout expected")
                except TimeoutError:
                    pass
                async with pool.connection() as connection:
                    cursor = await connection.execute("SELECT %s::int", (n,))
                    equal(await cursor.fetchone(), (n,))

        await by_many_tasks(work)


def big_rows_and_many_columns():
    def work(client):
        with connect(autocommit=True, prepare_threshold=client % 2) as connection:
            text = chr(97 + client) * 2_000_000
            equal(connection.execute("SELECT %s::text", (text,)).fetchone(), (text,))
            columns = sql.SQL(", ").join(sql.Literal(n) for n in range(1000))
            equal(connection.execute(sql.SQL("SELECT {}").format(columns)).fetchone(), tuple(range(1000)))

    by_many(work)


run([
    prepared_from_the_first_time,
    prepared_from_the_second_time,
    prepared_by_default,
    never_prepared,
    few_prepared_at_a_time,
    same_name_for_other_statements,
    result_type_changes,
    types_text_and_binary,
    executemany_with_results,
    pipelines,
    errors_in_pipelines,
    savepoints,
    copy_both_ways,
    named_cursors,
    bound_by_the_client,
    reported_settings,
    cancelling,
    notifications,
    job_queue,
    pool_of_connections,
    async_connections,
    async_pipelines,
    async_pool_and_tasks_that_give_up,
    big_rows_and_many_columns,
])
