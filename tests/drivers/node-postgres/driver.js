// node-postgres: its pool, named statements, cursors, COPY streams, notifications and a job queue, query timeouts and cancel requests.

import assert from "node:assert/strict";
import { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as pause } from "node:timers/promises";
import copyStreams from "pg-copy-streams";
import pg from "pg";
import Cursor from "pg-cursor";

const POOL_SIZE = Number(process.env.WEIR_POOL_SIZE);
// More clients than the pooler has server connections.
const CLIENTS = POOL_SIZE * 2 + 2;

// Clients find everything in libpq's environment variables.
async function withClient(work, settings = {}) {
  const client = new pg.Client(settings);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

const byMany = (work) => Promise.all(Array.from({ length: CLIENTS }, (_, number) => work(number)));

const freshTable = (name, columns = "id int PRIMARY KEY, client int, text text") =>
  withClient((client) => client.query(`DROP TABLE IF EXISTS ${name}; CREATE TABLE ${name} (${columns})`));

const refused = (promise, code) => assert.rejects(promise, (error) => error.code === code || assert.fail(`${code} expected: ${error}`));

async function withPool(work, settings = {}) {
  const pool = new pg.Pool({ max: CLIENTS, ...settings });
  pool.on("error", () => {}); // of connections that a scenario has broken on purpose
  try {
    await work(pool);
  } finally {
    await pool.end();
  }
}

async function pool() {
  await freshTable("node_pool");
  await withPool(async (pool) => {
    await byMany(async (client) => {
      for (let n = 0; n < 20; n++) {
        const id = client * 100 + n;
        await pool.query("INSERT INTO node_pool VALUES ($1, $2, $3)", [id, client, `text ${n}`]);
        const { rows } = await pool.query("SELECT client, text FROM node_pool WHERE id = $1", [id]);
        assert.deepEqual(rows, [{ client, text: `text ${n}` }]);
        await refused(pool.query("INSERT INTO node_pool VALUES ($1, 0, '')", [id]), "23505");
        await refused(pool.query("SELECT 1 / $1::int", [0]), "22012");
      }
    });
    const { rows } = await pool.query("SELECT count(*)::int, sum(client)::int FROM node_pool");
    assert.deepEqual(rows, [{ count: CLIENTS * 20, sum: (20 * CLIENTS * (CLIENTS - 1)) / 2 }]);
  });
}

async function transactions() {
  await freshTable("node_transactions");
  await withPool(async (pool) => {
    await byMany(async (number) => {
      for (let n = 0; n < 10; n++) {
        const client = await pool.connect();
        await client.query("BEGIN");
        await client.query("INSERT INTO node_transactions VALUES ($1, $2, '')", [number * 100 + n, number]);
        await client.query("SAVEPOINT here");
        await refused(client.query("SELECT no_column"), "42703");
        await refused(client.query("SELECT 1"), "25P02");
        await client.query("ROLLBACK TO here");
        const { rows } = await client.query("SELECT count(*)::int FROM node_transactions WHERE client = $1", [number]);
        assert.equal(rows[0].count, Math.ceil(n / 2) + 1);
        await client.query(n % 2 === 0 ? "COMMIT" : "ROLLBACK");
        client.release();
      }
    });
  });
}

// All clients use the same names for statements of their own.
const namedStatements = () =>
  byMany((number) =>
    withClient(async (client) => {
      for (let round = 0; round < 10; round++) {
        for (let n = 0; n < 5; n++) {
          const { rows } = await client.query({ name: `statement ${n}`, text: `SELECT $1::int + ${number * 10 + n} AS sum`, values: [round] });
          assert.deepEqual(rows, [{ sum: number * 10 + n + round }]);
        }
        await refused(client.query({ name: "fails", text: "SELECT 1 / $1::int", values: [0] }), "22012");
        await refused(client.query({ name: `never there ${round}`, text: "SELECT no_column" }), "42703");
      }
    }),
  );

// Many statements in flight on one connection: the driver queues, the pooler sees them one by one.
const queuedQueries = () =>
  byMany((number) =>
    withClient(async (client) => {
      const queries = Array.from({ length: 50 }, (_, n) => client.query("SELECT $1::int AS n, $2::int AS number", [n, number]));
      const failing = refused(client.query("SELECT 1 / 0"), "22012");
      const results = await Promise.all(queries);
      assert.deepEqual(results.map(({ rows }) => rows[0]), Array.from({ length: 50 }, (_, n) => ({ n, number })));
      await failing;
      const several = await client.query("SELECT 1 AS one; SELECT 2 AS two");
      assert.deepEqual(several.map(({ rows }) => rows[0]), [{ one: 1 }, { two: 2 }]);
    }),
  );

// In a transaction and outside: the portal of the driver lives until its Sync, and the server connection with it.
const cursors = () =>
  byMany((number) =>
    withClient(async (client) => {
      for (const inTransaction of [true, false]) {
        if (inTransaction) await client.query("BEGIN");
        const cursor = client.query(new Cursor("SELECT n * $1::int AS n FROM generate_series(1, 250) n", [number]));
        const found = [];
        for (let rows = await cursor.read(60); rows.length > 0; rows = await cursor.read(60)) found.push(...rows);
        await cursor.close();
        assert.deepEqual(found.map(({ n }) => n), Array.from({ length: 250 }, (_, n) => (n + 1) * number));
        const left = client.query(new Cursor("SELECT 10 / (5 - n) AS n FROM generate_series(1, 9) n"));
        assert.equal((await left.read(3)).length, 3);
        await refused(left.read(3), "22012");
        await left.close();
        if (inTransaction) await client.query("ROLLBACK");
      }
      const abandoned = client.query(new Cursor("SELECT n FROM generate_series(1, 1000000) n"));
      assert.equal((await abandoned.read(5)).length, 5);
      await abandoned.close();
      assert.equal((await client.query("SELECT 'goes on' AS text")).rows[0].text, "goes on");
    }),
  );

async function copy() {
  await freshTable("node_copy", "client int, n int, text text");
  await byMany((number) =>
    withClient(async (client) => {
      const lines = Array.from({ length: 5000 }, (_, n) => `${number}\t${n}\ttext of ${n}\n`);
      await pipeline(Readable.from(lines), client.query(copyStreams.from("COPY node_copy FROM STDIN")));
      const found = [];
      const collect = new Writable({
        write(chunk, _, done) {
          found.push(chunk);
          done();
        },
      });
      await pipeline(client.query(copyStreams.to(`COPY (SELECT * FROM node_copy WHERE client = ${number} ORDER BY n) TO STDOUT`)), collect);
      assert.equal(Buffer.concat(found).toString(), lines.join(""));
      await refused(pipeline(Readable.from(["no number\n"]), client.query(copyStreams.from("COPY node_copy FROM STDIN"))), "22P02");
      const { rows } = await client.query("SELECT count(*)::int FROM node_copy WHERE client = $1", [number]);
      assert.equal(rows[0].count, 5000);
    }),
  );
}

const types = () =>
  byMany((number) =>
    withClient(async (client) => {
      const values = [number, "ü € \u{1F980}", Buffer.from([0, 255, 1]), { a: [1, null] }, [1, 2, 3], null, new Date("2024-02-29T12:00:00Z")];
      const text = "SELECT $1::int, $2::text, $3::bytea, $4::jsonb, $5::int[], $6::text, $7::timestamptz";
      const { rows } = await client.query({ text, values, rowMode: "array" });
      assert.deepEqual(rows, [values]);
      const big = "x".repeat(3_000_000) + number;
      assert.equal((await client.query("SELECT $1::text AS text", [big])).rows[0].text, big);
    }),
  );

const settings = () =>
  byMany((number) =>
    withClient(
      async (client) => {
        await client.query(`SET TimeZone = 'Etc/GMT-${number}'`);
        for (let n = 0; n < 10; n++) {
          const { rows } = await client.query("SELECT current_setting('TimeZone') AS zone, current_setting('application_name') AS name");
          assert.deepEqual(rows, [{ zone: `Etc/GMT-${number}`, name: `client ${number}` }]);
        }
      },
      { application_name: `client ${number}` },
    ),
  );

// A client and what it is told, in order.
async function listener(...channels) {
  const client = new pg.Client();
  const told = [];
  client.on("notification", ({ processId, channel, payload }) => told.push({ own: processId === client.processID, channel, payload }));
  await client.connect();
  for (const channel of channels) await client.query(`LISTEN ${channel}`);
  return { client, told };
}

const payloads = ({ told }) => told.map(({ payload }) => payload);

// More clients listen than there are server connections.
async function notifications() {
  const listeners = await byMany((number) => listener("node_all", `node_${number}`));
  await withClient(async (notifier) => {
    for (let n = 0; n < 30; n++) {
      await notifier.query("BEGIN");
      await notifier.query("SELECT pg_notify('node_all', $1)", [`all ${n}`]);
      for (let number = 0; number < CLIENTS; number++) await notifier.query("SELECT pg_notify($1, $2)", [`node_${number}`, `${number} ${n}`]);
      await notifier.query("COMMIT");
    }
  });
  await until(() => listeners.every(({ told }) => told.length >= 60));
  listeners.forEach((listener, number) =>
    assert.deepEqual(payloads(listener), Array.from({ length: 30 }, (_, n) => [`all ${n}`, `${number} ${n}`]).flat()),
  );
  const [first, second] = listeners;
  await first.client.query("NOTIFY node_all, 'own'");
  assert.deepEqual(first.told.at(-1), { own: true, channel: "node_all", payload: "own" });
  await until(() => second.told.length === 61);
  assert.equal(second.told.at(-1).own, false);
  await first.client.query("UNLISTEN node_all");
  await second.client.query("NOTIFY node_all, 'not for the first'");
  await first.client.query("NOTIFY node_0, 'for the first'");
  assert.deepEqual(payloads(first).slice(61), ["for the first"]);
  for (const { client } of listeners) await client.end();
}

// Whoever is notified takes jobs until there are none; nobody looks without having been told.
async function jobQueue() {
  const jobs = 200;
  const take = `UPDATE node_jobs SET done_by = $1
    WHERE id = (SELECT id FROM node_jobs WHERE done_by IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id`;
  await freshTable("node_jobs", "id int PRIMARY KEY, done_by int");
  const taken = [];
  const workers = await byMany(async (number) => {
    const client = new pg.Client();
    let work = Promise.resolve();
    const takeAll = async () => {
      for (;;) {
        const { rows } = await client.query(take, [number]);
        if (rows.length === 0) return;
        taken.push(rows[0].id);
      }
    };
    client.on("notification", () => (work = work.then(takeAll)));
    await client.connect();
    await client.query("LISTEN node_jobs");
    return { client, done: () => work };
  });
  await byMany((number) =>
    withClient(async (client) => {
      for (let id = number; id < jobs; id += CLIENTS) {
        await client.query("BEGIN");
        await client.query("INSERT INTO node_jobs VALUES ($1)", [id]);
        await client.query("NOTIFY node_jobs");
        await client.query("COMMIT");
      }
    }),
  );
  await until(() => taken.length === jobs);
  assert.deepEqual(taken.toSorted((a, b) => a - b), Array.from({ length: jobs }, (_, id) => id));
  for (const { client, done } of workers) {
    await done();
    await client.end();
  }
}

async function until(condition) {
  const deadline = Date.now() + 20_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `waited in vain: ${condition}`);
    await pause(20);
  }
}

const running = (client, marker) =>
  client
    .query("SELECT count(*)::int FROM pg_stat_activity WHERE query = $1 AND state = 'active'", [marker])
    .then(({ rows }) => rows[0].count);

async function cancel() {
  await withClient(async (observer) => {
    const work = (number) =>
      withClient(async (client) => {
        const text = `SELECT pg_sleep(60), 'cancelled ${number}'`;
        const ended = refused(client.query(text), "57014");
        await until(async () => (await running(observer, text)) === 1);
        new pg.Client().cancel(client, client._getActiveQuery());
        await ended;
        assert.equal((await client.query("SELECT $1::int AS n", [number])).rows[0].n, number);
      });
    await Promise.all(Array.from({ length: POOL_SIZE - 1 }, (_, number) => work(number)));
  });
}

// The driver gives up on the query and its pool closes the connection: the statement must not go on, the server connection must come back.
async function queryTimeout() {
  const text = "SELECT pg_sleep(61)";
  await withPool(async (pool) => {
    await byMany(async () => {
      const client = await pool.connect();
      await assert.rejects(client.query({ text, query_timeout: 200 }), /timeout/i);
      client.release(true);
    });
    await until(async () => (await running(pool, text)) === 0);
    await byMany(async (number) => assert.equal((await pool.query("SELECT $1::int AS n", [number])).rows[0].n, number));
  });
}

async function statementTimeout() {
  await byMany((number) =>
    withClient(async (client) => {
      await client.query("BEGIN");
      await client.query("SET LOCAL statement_timeout = 20");
      await refused(client.query("SELECT pg_sleep(60)"), "57014");
      await client.query("ROLLBACK");
      assert.equal((await client.query("SELECT $1::int AS n", [number])).rows[0].n, number);
    }),
  );
}

const noMoreServerConnections = () =>
  withClient(async (client) => {
    const { rows } = await client.query("SELECT count(*)::int FROM pg_stat_activity WHERE usename = current_user");
    assert.ok(rows[0].count <= POOL_SIZE, `${rows[0].count} server connections`);
  });

const scenarios = [
  pool,
  transactions,
  namedStatements,
  queuedQueries,
  cursors,
  copy,
  types,
  settings,
  notifications,
  jobQueue,
  cancel,
  queryTimeout,
  statementTimeout,
  noMoreServerConnections,
];
let failed = 0;
for (const scenario of scenarios) {
  try {
    await scenario();
  } catch (error) {
    failed++;
    console.log(`FAILED: ${scenario.name}`);
    console.log(error);
  }
}
console.log(`${scenarios.length - failed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
