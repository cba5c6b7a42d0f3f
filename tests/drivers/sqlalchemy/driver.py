"""SQLAlchemy with psycopg, psycopg2 and asyncpg; Alembic: sessions, isolation, temporary tables, cursors, two-phase commits, migrations."""

import asyncio
import os

from alembic import command, script
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import BigInteger, ForeignKey, URL, create_engine, event, func, inspect, select, text, update
from sqlalchemy.dialects.postgresql import ENUM, JSONB, insert
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload
from sqlalchemy.pool import NullPool

from scenarios import CLIENTS, POOL_SIZE, by_many, by_many_tasks, equal, run

DIALECTS = ["psycopg", "psycopg2"]
MAY_BE_PINNED = POOL_SIZE * 4 // 5


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "sa_accounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(unique=True)
    balance: Mapped[int] = mapped_column(server_default="0")
    kind: Mapped[str | None] = mapped_column(ENUM("cash", "card", "cheque", name="sa_kind", create_type=False), server_default="cash")
    entries: Mapped[list["Entry"]] = relationship(back_populates="of", cascade="all, delete-orphan")


class Entry(Base):
    __tablename__ = "sa_entries"
    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    account: Mapped[int | None] = mapped_column(ForeignKey("sa_accounts.id", deferrable=True, initially="DEFERRED"))
    data: Mapped[dict | None] = mapped_column(JSONB)
    of: Mapped[Account] = relationship(back_populates="entries")


def url(dialect, port=os.environ["PGPORT"]):
    environ = os.environ
    return URL.create(f"postgresql+{dialect}", environ["PGUSER"], environ["PGPASSWORD"], environ["PGHOST"], int(port), environ["PGDATABASE"])


def engines(**settings):
    """One of each dialect; its pool is larger than the pooler's."""
    for dialect in DIALECTS:
        engine = create_engine(url(dialect), pool_size=CLIENTS, **settings)
        yield dialect, engine
        engine.dispose()


def alembic(engine, order, revision):
    config = Config()
    config.set_main_option("script_location", "migrations")
    with engine.connect() as connection:
        config.attributes["connection"] = connection
        order(config, revision)
        connection.commit()


def tables(connection):
    """What the catalogue says of the tables."""
    found = inspect(connection)
    names = [name for name in found.get_table_names() if name.startswith("sa_")]
    return {
        name: [str(found.get_columns(name)), found.get_indexes(name), found.get_foreign_keys(name), found.get_unique_constraints(name)] for name in names
    }


def migrations():
    """Forwards, back and forwards, by each dialect; the tables are those that come out directly."""
    direct = create_engine(url("psycopg", os.environ["WEIR_DIRECT_PORT"]), poolclass=NullPool)
    alembic(direct, command.upgrade, "head")
    with direct.connect() as connection:
        expected = tables(connection)
    alembic(direct, command.downgrade, "base")
    for _, engine in engines():
        alembic(engine, command.upgrade, "head")
        with engine.connect() as connection:
            equal(tables(connection), expected)
            kinds = connection.scalars(text("SELECT unnest(enum_range(NULL::sa_kind))::text")).all()
            equal(kinds, ["cash", "card", "cheque"])
        alembic(engine, command.downgrade, "1")
        alembic(engine, command.upgrade, "head")
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"include_name": lambda name, kind, _: kind != "table" or name in Base.metadata.tables})
            differences = compare_metadata(context, Base.metadata)
            equal([difference[0] for difference in differences], ["remove_index"])
            heads = script.ScriptDirectory("migrations").get_heads()
            equal(connection.scalars(text("SELECT version_num FROM sa_version")).all(), heads)
        if engine.dialect.driver != DIALECTS[-1]:
            alembic(engine, command.downgrade, "base")


def sessions():
    for dialect, engine in engines():

        def work(client):
            for round in range(5):
                owner = f"{dialect} {client} {round}"
                with Session(engine, expire_on_commit=False) as session, session.begin():
                    account = Account(owner=owner, entries=[Entry(id=hash_of(owner) + n, data={"n": n}) for n in range(30)])
                    session.add(account)
                    session.flush()
                    try:
                        with session.begin_nested():
                            session.add(Account(owner=owner))
                            session.flush()
                        raise AssertionError("there is such an owner")
                    except IntegrityError:
                        pass
                    session.execute(update(Account).where(Account.id == account.id).values(balance=7))
                with Session(engine) as session:
                    found = session.scalars(select(Account).where(Account.owner == owner).options(selectinload(Account.entries))).one()
                    equal((found.balance, found.kind, len(found.entries)), (7, "cash", 30))
                    session.delete(found.entries[0])
                    session.rollback()
                    equal(session.scalar(select(func.count()).where(Entry.account == account.id)), 30)
                with engine.begin() as connection:
                    upsert = insert(Account).values(owner=owner, balance=1)
                    upsert = upsert.on_conflict_do_update(index_elements=["owner"], set_={"balance": Account.balance + upsert.excluded.balance})
                    equal(connection.scalar(upsert.returning(Account.balance)), 8)

        by_many(work)


def hash_of(owner):
    """A range of numbers of the owner's own."""
    return sum(ord(letter) * 131**n for n, letter in enumerate(owner)) % 2**40 * 100


def isolation_levels():
    """Per engine, per connection, and what the session's characteristics say; the pool's connections serve all."""
    levels = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
    for _, engine in engines():

        def level(connection):
            return connection.scalar(text("SHOW transaction_isolation")).upper()

        def work(client):
            mine = levels[client % 3]
            own = engine.execution_options(isolation_level=mine)
            for _ in range(5):
                with own.connect() as connection:
                    equal(level(connection), mine)
                with engine.connect() as connection:
                    equal(level(connection), "READ COMMITTED")
                with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                    connection.execute(text(f"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {mine}, READ ONLY"))
                    equal(level(connection), mine)
                    equal(connection.scalar(text("SHOW transaction_read_only")), "on")
                    try:
                        connection.execute(update(Account).values(balance=0))
                        raise AssertionError("the session only reads")
                    except DBAPIError as error:
                        equal("read-only" in str(error), True)
                    connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"))

        by_many(work)


def each_tenant_its_own():
    """Settings made by an event when a connection is opened, and local ones, of tenants that share the pool."""
    for dialect, engine in engines():

        @event.listens_for(engine, "checkout")
        def tenant(raw, record, proxy):
            if "tenant" not in record.info:
                record.info["tenant"] = f"tenant_{id(record) % 10**9}"
                before, raw.autocommit = raw.autocommit, True
                with raw.cursor() as cursor:
                    cursor.execute(f"SET search_path = {record.info['tenant']}, public")
                    cursor.execute(f"SELECT set_config('app.tenant', '{record.info['tenant']}', false)")
                raw.autocommit = before

        def work(client):
            for n in range(8):
                with engine.connect() as connection:
                    mine = connection.info["tenant"]
                    equal(connection.scalar(text("SELECT current_setting('app.tenant')")), mine)
                    connection.rollback()
                    connection.execute(text(f"SET LOCAL search_path = local_{client}"))
                    connection.execute(text("SET LOCAL work_mem = '1234kB'"))
                    equal(connection.scalar(text("SHOW search_path")), f"local_{client}")
                    connection.commit() if n % 2 else connection.rollback()
                    equal(connection.scalar(text("SHOW search_path")), f"{mine}, public")
                    equal(connection.scalar(text("SHOW work_mem")), "4MB")

        by_many(work)


def tenants_by_startup_options():
    """Asked for in the startup packet, which is what RESET goes back to."""

    def work(client):
        for dialect in DIALECTS:
            arguments = {"application_name": f"tenant {client}", "options": f"-c search_path=tenant_{client} -c app.tenant={client} -c work_mem={client + 64}kB"}
            engine = create_engine(url(dialect), connect_args=arguments)
            expected = (f"tenant {client}", f"tenant_{client}", str(client), f"{client + 64}kB")
            names = ["application_name", "search_path", "app.tenant", "work_mem"]
            for order in ("SELECT", "SET search_path = elsewhere", "RESET search_path", "SET app.tenant = 'another'", "RESET ALL", "DISCARD ALL"):
                with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                    connection.exec_driver_sql(order)
                    found = [connection.scalar(text(f"SELECT current_setting('{name}')")) for name in names]
                    if order.startswith("SET"):
                        equal(found.count("elsewhere") + found.count("another"), 1)
                    else:
                        equal(tuple(found), expected)
            engine.dispose()

    by_many(work)


def temporary_tables():
    """Within a transaction by all clients at once; over several transactions by as many as may be pinned."""
    for _, engine in engines():

        def in_a_transaction(client):
            with engine.begin() as connection:
                connection.execute(text("CREATE TEMP TABLE sa_temporary (n int) ON COMMIT DROP"))
                connection.execute(text("INSERT INTO sa_temporary SELECT generate_series(1, :n)"), {"n": client})
                equal(connection.scalar(text("SELECT count(*) FROM sa_temporary")), client)

        def over_transactions(client):
            with engine.connect() as connection:
                connection.execute(text("CREATE TEMP TABLE sa_temporary (n int)"))
                connection.commit()
                for n in range(10):
                    connection.execute(text("INSERT INTO sa_temporary VALUES (:n)"), {"n": n})
                    connection.commit()
                equal(connection.scalar(text("SELECT count(*) FROM sa_temporary")), 10)
                connection.execute(text("DROP TABLE sa_temporary"))
                connection.commit()

        by_many(in_a_transaction)
        by_many(lambda client: over_transactions(client) if client < MAY_BE_PINNED else None)


def cursors_on_the_server():
    for _, engine in engines():

        def work(client):
            for _ in range(3):
                with engine.connect().execution_options(yield_per=40) as connection:
                    rows = connection.execute(text("SELECT n * :client FROM generate_series(1, 500) n"), {"client": client})
                    equal([row[0] for row in rows], [n * client for n in range(1, 501)])
                with Session(engine) as session:
                    accounts = session.scalars(select(Account).order_by(Account.id).limit(20).execution_options(yield_per=7))
                    equal([account.id for account in accounts][:3], [1, 2, 3])

        by_many(work)


def two_phases():
    """Prepared by one session, ended by it or by another one."""
    for dialect, engine in engines():

        def work(client):
            account = Account.__table__
            for n in range(4):
                owner = f"two phases {dialect} {client} {n}"
                with engine.connect() as connection:
                    transaction = connection.begin_twophase(f"{dialect} {client} {n}")
                    connection.execute(account.insert().values(owner=owner))
                    transaction.prepare()
                    if n % 2 == 0:
                        transaction.commit()
                    else:
                        transaction.rollback()
                with engine.connect() as connection:
                    equal(connection.scalar(select(func.count()).where(account.c.owner == owner)), 1 - n % 2)

        by_many(work)
        with engine.connect() as connection:
            connection.execute(text("SELECT 1"))
            connection.exec_driver_sql(f"PREPARE TRANSACTION 'left by {dialect}'")
        with engine.connect() as connection:
            equal(f"left by {dialect}" in connection.recover_twophase(), True)
            connection.rollback()
            connection.rollback_prepared(f"left by {dialect}", recover=True)


def constraints_put_off():
    for _, engine in engines():

        def work(client):
            for immediate in (False, True):
                try:
                    with engine.begin() as connection:
                        connection.execute(insert(Entry).values(id=-client - 1, account=-1))
                        if immediate:
                            connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
                            raise AssertionError("no account has this number")
                    raise AssertionError("no account has this number")
                except IntegrityError:
                    pass

        by_many(work)


def connections_tested_before_use():
    for _, engine in engines(pool_pre_ping=True, pool_reset_on_return="rollback", max_overflow=0):

        def work(client):
            for n in range(10):
                with engine.connect() as connection:
                    equal(connection.scalar(text("SELECT :n + 1"), {"n": n}), n + 1)

        by_many(work)


async def asyncpg_sessions():
    engine = create_async_engine(url("asyncpg"), pool_size=CLIENTS, pool_pre_ping=True, connect_args={"server_settings": {"application_name": "sa"}})

    async def work(client):
        for round in range(5):
            owner = f"asyncpg {client} {round}"
            async with AsyncSession(engine, expire_on_commit=False) as session, session.begin():
                session.add(Account(owner=owner, entries=[Entry(id=hash_of(owner) + n, data={"n": [n]}) for n in range(30)]))
                await session.flush()
                try:
                    async with session.begin_nested():
                        session.add(Account(owner=owner))
                    raise AssertionError("there is such an owner")
                except IntegrityError:
                    pass
            async with AsyncSession(engine) as session:
                found = (await session.scalars(select(Account).where(Account.owner == owner).options(selectinload(Account.entries)))).one()
                equal((found.kind, len(found.entries), found.entries[3].data), ("cash", 30, {"n": [3]}))
            async with engine.connect() as connection:
                await connection.execute(text(f"SET LOCAL search_path = local_{client}, public"))
                equal(await connection.scalar(text("SHOW search_path")), f"local_{client}, public")
                equal(await connection.scalar(text("SHOW application_name")), "sa")
                await connection.rollback()
                equal(await connection.scalar(text("SHOW search_path")), '"$user", public')
                rows = await connection.stream(text("SELECT n FROM generate_series(1, 300) n"))
                equal([row.n async for row in rows], list(range(1, 301)))

    await by_many_tasks(work)
    await engine.dispose()


async def asyncpg_isolation():
    engine = create_async_engine(url("asyncpg"), pool_size=CLIENTS)

    async def work(client):
        level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "AUTOCOMMIT"][client % 4]
        for _ in range(5):
            async with engine.execution_options(isolation_level=level).connect() as connection:
                found = (await connection.scalar(text("SHOW transaction_isolation"))).upper()
                equal(found, level if level != "AUTOCOMMIT" else "READ COMMITTED")
            await asyncio.sleep(0)

    await by_many_tasks(work)
    await engine.dispose()


async def asyncpg_without_a_pool():
    """A connection for each piece of work, and names of prepared statements as its manual advises for other poolers."""
    plain = create_async_engine(url("asyncpg"), poolclass=NullPool)
    uncached = create_async_engine(url("asyncpg"), poolclass=NullPool, connect_args={"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""})

    async def work(client):
        for engine in (plain, uncached):
            for n in range(4):
                async with engine.begin() as connection:
                    equal(await connection.scalar(text("SELECT CAST(:n AS int) * :client"), {"n": n, "client": client}), n * client)
                    equal(len((await connection.execute(select(Account).limit(5))).all()), 5)

    await by_many_tasks(work)


run([
    migrations,
    sessions,
    isolation_levels,
    each_tenant_its_own,
    tenants_by_startup_options,
    temporary_tables,
    cursors_on_the_server,
    two_phases,
    constraints_put_off,
    connections_tested_before_use,
    asyncpg_sessions,
    asyncpg_isolation,
    asyncpg_without_a_pool,
])
