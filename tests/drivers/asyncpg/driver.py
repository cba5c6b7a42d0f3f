"""asyncpg: its pool with its reset query, prepared statements, introspection, COPY, cursors, notifications, timeouts."""

import asyncio
import io
import uuid
from decimal import Decimal

import asyncpg

from scenarios import CLIENTS, POOL_SIZE, by_many_tasks, equal, run


async def connect(**settings):
    # Everything else is in libpq's environment variables.
    return await asyncpg.connect(ssl=False, **settings)


async def fresh(*statements):
    connection = await connect()
    for statement in statements:
        await connection.execute(statement)
    await connection.close()


async def fresh_table(name, columns="id int PRIMARY KEY, client int, text text"):
    await fresh(f"DROP TABLE IF EXISTS {name}", f"CREATE TABLE {name} ({columns})")


async def expect(error, awaitable):
    try:
        await awaitable
    except error:
        return
    raise AssertionError(f"{error.__name__} expected")


async def pool_with_its_reset_query():
    """The pool's reset query runs whenever a task gives its connection back."""
    await fresh_table("asyncpg_pool")
    async with asyncpg.create_pool(ssl=False, min_size=CLIENTS, max_size=CLIENTS) as pool:

        async def work(client):
            for n in range(20):
                async with pool.acquire() as connection, connection.transaction():
                    await connection.execute("INSERT INTO asyncpg_pool VALUES ($1, $2, $3)", client * 100 + n, client, f"text {n}")
                    equal(await connection.fetchval("SELECT text FROM asyncpg_pool WHERE id = $1", client * 100 + n), f"text {n}")
                await expect(asyncpg.UniqueViolationError, pool.execute("INSERT INTO asyncpg_pool VALUES ($1, 0, '')", client * 100 + n))
                await expect(asyncpg.DivisionByZeroError, pool.fetchval("SELECT 1 / $1::int", 0))
                equal(await pool.fetchrow("SELECT count(*), $2::int AS given FROM asyncpg_pool WHERE client = $1", client, n), (n + 1, n))

        await by_many_tasks(work)
        equal(await pool.fetchval("SELECT count(*) FROM asyncpg_pool"), CLIENTS * 20)


async def prepared_statements():
    async def work(client):
        connection = await connect()
        adds = await connection.prepare(f"SELECT $1::int + {client}")
        rows = await connection.prepare("SELECT n, $2::text AS text FROM generate_series(1, $1::int) n")
        equal([parameter.name for parameter in rows.get_parameters()], ["int4", "text"])
        equal([attribute.name for attribute in rows.get_attributes()], ["n", "text"])
        for n in range(25):
            equal(await adds.fetchval(n), client + n)
            equal([tuple(row) for row in await rows.fetch(n, f"of {client}")], [(i + 1, f"of {client}") for i in range(n)])
            if n % 5 == 0:
                await expect(asyncpg.DivisionByZeroError, connection.fetchval("SELECT $1::int / 0", n))
        await expect(asyncpg.UndefinedColumnError, connection.prepare("SELECT no_such_column"))
        equal(await connection.fetchval("SELECT 'goes on'"), "goes on")
        await connection.close()

    await by_many_tasks(work)


async def statement_cache_of_every_size():
    async def work(client):
        connection = await connect(statement_cache_size=(0, 1, 100)[client % 3])
        for n in range(40):
            number = n * 7 % 9
            equal(await connection.fetchval(f"SELECT $1::int * {number}", client), client * number)
        await connection.close()

    await by_many_tasks(work)


async def types_that_have_to_be_introspected():
    await fresh(
        """DO $$ BEGIN
            CREATE TYPE asyncpg_mood AS ENUM ('glad', 'sad');
            CREATE TYPE asyncpg_pair AS (mood asyncpg_mood, numbers int[]);
        EXCEPTION WHEN duplicate_object THEN NULL;
        END $$"""
    )

    async def work(client):
        connection = await connect()
        pair = ("sad", [client, 2, None])
        equal(tuple(await connection.fetchval("SELECT $1::asyncpg_pair", pair)), pair)
        pairs = await connection.fetchval("SELECT $1::asyncpg_pair[]", [pair, ("glad", [])])
        equal([tuple(one) for one in pairs], [pair, ("glad", [])])
        await connection.set_type_codec("jsonb", encoder=str, decoder=lambda text: ("json", text), schema="pg_catalog")
        equal(await connection.fetchval("""SELECT '{"a": 1}'::jsonb"""), ("json", '{"a": 1}'))
        values = (uuid.UUID(int=client), Decimal("1.5"), b"\x00\xff", "ü € \U0001f980", asyncpg.Range(1, 5))
        row = await connection.fetchrow("SELECT $1::uuid, $2::numeric, $3::bytea, $4::text, $5::int4range", *values)
        equal(tuple(row), values)
        await connection.close()

    await by_many_tasks(work)


async def a_type_made_anew():
    """The same text means another type: each server connection refuses the statement once, then prepares it anew."""
    make = "DROP TYPE IF EXISTS asyncpg_anew", "CREATE TYPE asyncpg_anew AS (number int)"
    await fresh(*make)

    async def select(client):
        connection = await connect()
        try:
            return tuple(await connection.fetchval("SELECT $1::asyncpg_anew", (client,)))
        except asyncpg.InternalServerError:  # cache lookup failed for type
            return None
        finally:
            await connection.close()

    for _ in range(2):
        found = [await select(client) for client in range(CLIENTS) for _ in range(2)]
        if found.count(None) > POOL_SIZE:
            raise AssertionError(f"{found.count(None)} statements refused by {POOL_SIZE} server connections")
        await fresh(*make)


async def copy_both_ways():
    await fresh_table("asyncpg_copy", "client int, n int, data bytea")

    async def work(client):
        connection = await connect()
        rows = [(client, n, bytes([n % 256]) * n) for n in range(500)]
        equal(await connection.copy_records_to_table("asyncpg_copy", records=rows), "COPY 500")
        out = io.BytesIO()
        equal(await connection.copy_from_query("SELECT n FROM asyncpg_copy WHERE client = $1 ORDER BY n", client, output=out), "COPY 500")
        equal(out.getvalue(), b"".join(b"%d\n" % n for n in range(500)))
        text = io.BytesIO(b"".join(b"%d\t%d\t\\\\x00\n" % (client, n) for n in range(300)))
        equal(await connection.copy_to_table("asyncpg_copy", source=text), "COPY 300")
        await expect(asyncpg.BadCopyFileFormatError, connection.copy_to_table("asyncpg_copy", source=io.BytesIO(b"1\n")))

        async def gives_up():
            yield b"1\t1\t\\\\x00\n"
            raise KeyError

        await expect(KeyError, connection.copy_to_table("asyncpg_copy", source=gives_up()))
        equal(await connection.fetchval("SELECT count(*) FROM asyncpg_copy WHERE client = $1", client), 800)
        await connection.close()

    await by_many_tasks(work)


async def cursors_in_transactions():
    async def work(client):
        connection = await connect()
        async with connection.transaction():
            found = [row[0] async for row in connection.cursor("SELECT n * $1::int FROM generate_series(1, 400) n", client, prefetch=30)]
            equal(found, [n * client for n in range(1, 401)])
        async with connection.transaction(isolation="repeatable_read"):
            cursor = await connection.cursor("SELECT n FROM generate_series(1, 100) n")
            equal(await cursor.forward(10), 10)
            equal([row[0] for row in await cursor.fetch(3)], [11, 12, 13])
            try:
                async with connection.transaction():
                    await connection.fetchval("SELECT 1 / 0")
            except asyncpg.DivisionByZeroError:
                pass
            equal((await cursor.fetchrow())[0], 14)
        await connection.close()

    await by_many_tasks(work)


async def many_at_once():
    await fresh_table("asyncpg_many")

    async def work(client):
        connection = await connect()
        rows = [(client * 1000 + n, client, "x" * n) for n in range(300)]
        await connection.executemany("INSERT INTO asyncpg_many VALUES ($1, $2, $3)", rows)
        await expect(asyncpg.UniqueViolationError, connection.executemany("INSERT INTO asyncpg_many VALUES ($1, $2, $3)", [(client * 1000 + 900, client, ""), rows[0]]))
        found = await connection.fetchmany("INSERT INTO asyncpg_many VALUES ($1, $2, $3) RETURNING id", [(client * 1000 + 500 + n, client, "") for n in range(10)])
        equal([row[0] for row in found], [client * 1000 + 500 + n for n in range(10)])
        equal(await connection.fetchval("SELECT count(*) FROM asyncpg_many WHERE client = $1", client), 310)
        await connection.close()

    await by_many_tasks(work)


async def settings_of_the_session():
    zones = ["UTC", "Asia/Kathmandu", "America/Caracas", "Australia/Eucla"]
    hours = ["12:00:00+00", "17:45:00+05:45", "08:00:00-04", "20:45:00+08:45"]

    async def work(client):
        connection = await connect(server_settings={"TimeZone": zones[client % 4], "application_name": f"client {client}"})
        for _ in range(10):
            # As the driver's pool does whenever a connection is given back.
            await connection.reset()
            equal((await connection.fetchval("SELECT timestamptz '2024-02-29 12:00+00'::text"))[11:], hours[client % 4])
            equal(await connection.fetchval("SHOW application_name"), f"client {client}")
        equal(connection.get_settings().TimeZone, zones[client % 4])
        await connection.close()

    await by_many_tasks(work)


class Listener:
    """A connection, and what it is told."""

    def __init__(self, connection):
        self.connection = connection
        self.told = asyncio.Queue()

    @staticmethod
    async def on(*channels):
        listener = Listener(await connect())
        for channel in channels:
            await listener.connection.add_listener(channel, listener.on_notification)
        return listener

    def on_notification(self, _connection, pid, channel, payload):
        self.told.put_nowait((pid, channel, payload))

    async def payload(self):
        return (await asyncio.wait_for(self.told.get(), 20))[2]


async def notifications():
    """More clients listen than there are server connections; while they do, they work."""
    listeners = await by_many_tasks(lambda number: Listener.on("asyncpg_all", f"asyncpg_{number}"))
    async with asyncpg.create_pool(ssl=False, min_size=2, max_size=2) as pool:
        for n in range(30):
            async with pool.acquire() as connection, connection.transaction():
                await connection.execute("SELECT pg_notify('asyncpg_all', $1)", f"all {n}")
                for number in range(CLIENTS):
                    await connection.execute("SELECT pg_notify($1, $2)", f"asyncpg_{number}", f"{number} {n}")

    async def work(number):
        listener = listeners[number]
        for n in range(30):
            equal(await listener.payload(), f"all {n}")
            equal(await listener.payload(), f"{number} {n}")
            equal(await listener.connection.fetchval("SELECT $1::int", n), n)

    await by_many_tasks(work)
    first = listeners[0]
    await first.connection.execute("SELECT pg_notify('asyncpg_all', 'own')")
    equal(first.told.get_nowait(), (first.connection.get_server_pid(), "asyncpg_all", "own"))
    for listener in listeners[1:]:
        equal(await listener.payload(), "own")
    await first.connection.remove_listener("asyncpg_all", first.on_notification)
    await first.connection.execute("SELECT pg_notify('asyncpg_all', 'not for me')")
    equal(await listeners[1].payload(), "not for me")
    await first.connection.execute("NOTIFY asyncpg_0, 'for me'")
    equal(await first.payload(), "for me")
    for listener in listeners:
        await listener.connection.close()


async def a_connection_of_the_pool_stops_listening_when_it_is_given_back():
    def wrong(*told):
        found.append(told)

    found = []
    async with asyncpg.create_pool(ssl=False, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection:
            await connection.add_listener("asyncpg_given_back", wrong)
            await connection.remove_listener("asyncpg_given_back", wrong)
            await connection.execute("LISTEN asyncpg_given_back")
        async with pool.acquire() as connection:
            equal(await connection.fetchval("SELECT count(*) FROM pg_listening_channels()"), 0)
            await connection.execute("NOTIFY asyncpg_given_back")
    equal(found, [])


async def timeouts_cancel():
    async with asyncpg.create_pool(ssl=False, min_size=CLIENTS, max_size=CLIENTS) as pool:

        async def work(client):
            for n in range(5):
                await expect(TimeoutError, pool.fetchval("SELECT pg_sleep(30)", timeout=0.05))
                equal(await pool.fetchval("SELECT $1::int", n), n)

        await by_many_tasks(work)
        # The driver cancels in tasks of its own, which the end of the event loop would cut off.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others, timeout=20) if others else None


async def cancelled_statements_do_not_go_on():
    await fresh("SELECT 1")
    connection = await connect()
    still = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(30)' AND state = 'active'"
    async with asyncio.timeout(20):
        while await connection.fetchval(still) > 0:
            await asyncio.sleep(0.05)
    await connection.close()


async def no_more_server_connections_than_the_pool_has():
    connection = await connect()
    equal(await connection.fetchval("SELECT count(*) <= $1 FROM pg_stat_activity WHERE usename = current_user", POOL_SIZE), True)
    await connection.close()


run([
    pool_with_its_reset_query,
    prepared_statements,
    statement_cache_of_every_size,
    types_that_have_to_be_introspected,
    a_type_made_anew,
    copy_both_ways,
    cursors_in_transactions,
    many_at_once,
    settings_of_the_session,
    notifications,
    a_connection_of_the_pool_stops_listening_when_it_is_given_back,
    timeouts_cancel,
    cancelled_statements_do_not_go_on,
    no_more_server_connections_than_the_pool_has,
])
