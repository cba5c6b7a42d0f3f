//! The tables of the experiments: one schema, `weir_lab`, wherever it is.

use super::Error;
use crate::driver::{Connection, Endpoint};
use crate::workload::ACCOUNTS;

/// The schema of everything that the lab creates.
pub const SCHEMA: &str = "weir_lab";

const TABLES: &str = "\
CREATE SCHEMA weir_lab;
CREATE TABLE weir_lab.branches (bid int PRIMARY KEY, bbalance int NOT NULL, filler char(88)) WITH (fillfactor = 50);
CREATE TABLE weir_lab.tellers (tid int PRIMARY KEY, bid int NOT NULL, tbalance int NOT NULL, filler char(84)) WITH (fillfactor = 50);
CREATE TABLE weir_lab.accounts (aid int PRIMARY KEY, bid int NOT NULL, abalance int NOT NULL, filler char(84)) WITH (fillfactor = 90);
CREATE TABLE weir_lab.history (tid int, bid int, aid int, delta int, mtime timestamptz, filler char(22));
CREATE TABLE weir_lab.events (id bigserial PRIMARY KEY, batch int NOT NULL, payload text NOT NULL);
INSERT INTO weir_lab.branches SELECT bid, 0, '' FROM generate_series(1, 20) AS bid;
INSERT INTO weir_lab.tellers SELECT tid, 1 + tid % 20, 0, '' FROM generate_series(1, 200) AS tid;
INSERT INTO weir_lab.accounts SELECT aid, 1 + aid % 20, 0, '' FROM generate_series(1, {accounts}) AS aid;
";

const ORDER_ENTRY: &str = "\
CREATE TABLE weir_lab.warehouse (w_id int PRIMARY KEY, ytd bigint NOT NULL DEFAULT 0);
CREATE TABLE weir_lab.district (w_id int, d_id int, next_o_id int NOT NULL DEFAULT 1, ytd bigint NOT NULL DEFAULT 0, PRIMARY KEY (w_id, d_id)) WITH (fillfactor = 50);
CREATE TABLE weir_lab.customer (w_id int, d_id int, c_id int, balance bigint NOT NULL DEFAULT 0, filler char(200), PRIMARY KEY (w_id, d_id, c_id)) WITH (fillfactor = 80);
CREATE TABLE weir_lab.item (i_id int PRIMARY KEY, price int NOT NULL);
CREATE TABLE weir_lab.stock (w_id int, i_id int, quantity int NOT NULL DEFAULT 50, filler char(100), PRIMARY KEY (w_id, i_id)) WITH (fillfactor = 80);
CREATE TABLE weir_lab.orders (w_id int, d_id int, o_id int, c_id int NOT NULL, line_count int NOT NULL, carrier int, PRIMARY KEY (w_id, d_id, o_id));
CREATE INDEX ON weir_lab.orders (w_id, d_id, c_id);
CREATE TABLE weir_lab.new_order (w_id int, d_id int, o_id int, PRIMARY KEY (w_id, d_id, o_id));
CREATE TABLE weir_lab.order_line (w_id int, d_id int, o_id int, line int, i_id int NOT NULL, quantity int NOT NULL, amount int NOT NULL, delivered timestamptz, PRIMARY KEY (w_id, d_id, o_id, line));
CREATE TABLE weir_lab.payment (w_id int, d_id int, c_id int, amount int, paid timestamptz);
INSERT INTO weir_lab.warehouse SELECT w FROM generate_series(1, 20) AS w;
INSERT INTO weir_lab.district SELECT w, d FROM generate_series(1, 20) AS w, generate_series(1, 10) AS d;
INSERT INTO weir_lab.customer SELECT w, d, c, 0, '' FROM generate_series(1, 20) AS w, generate_series(1, 10) AS d, generate_series(1, 100) AS c;
INSERT INTO weir_lab.item SELECT i, 1 + i % 100 FROM generate_series(1, 1000) AS i;
INSERT INTO weir_lab.stock SELECT w, i, 50, '' FROM generate_series(1, 20) AS w, generate_series(1, 1000) AS i;
";

/// Outside of a transaction, so each a query of its own.
const VACUUM: [&str; 4] = [
    "VACUUM ANALYZE weir_lab.accounts",
    "VACUUM ANALYZE weir_lab.stock",
    "VACUUM ANALYZE weir_lab.customer",
    "ANALYZE weir_lab.item",
];

/// Empties what loads have filled, so that the next one finds what the first one found.
const RESET: [&str; 6] = [
    "TRUNCATE weir_lab.history, weir_lab.events, weir_lab.orders, weir_lab.new_order, weir_lab.order_line, weir_lab.payment",
    "UPDATE weir_lab.district SET next_o_id = 1",
    "VACUUM weir_lab.district",
    "VACUUM weir_lab.branches",
    "VACUUM weir_lab.tellers",
    "VACUUM weir_lab.warehouse",
];

/// Name of one of the tables of the experiment `bloat`.
pub fn relation(number: u64) -> String {
    format!("{SCHEMA}.relation_{number}")
}

/// Creates and fills the tables; what an earlier run left is removed first.
pub async fn fill(endpoint: &Endpoint) -> Result<(), Error> {
    remove(endpoint).await?;
    let mut connection = Connection::open(endpoint).await?;
    let tables = TABLES.replace("{accounts}", &ACCOUNTS.to_string());
    connection.query(&tables).await?;
    connection.query(ORDER_ENTRY).await?;
    for sql in VACUUM {
        connection.query(sql).await?;
    }
    connection.close().await;
    Ok(())
}

/// Empties what loads have filled.
pub async fn empty(endpoint: &Endpoint) -> Result<(), Error> {
    let mut connection = Connection::open(endpoint).await?;
    for sql in RESET {
        connection.query(sql).await?;
    }
    connection.close().await;
    Ok(())
}

/// Removes the schema and everything in it. The many tables of `bloat` go in portions: each one dropped holds a lock.
pub async fn remove(endpoint: &Endpoint) -> Result<(), Error> {
    let mut connection = Connection::open(endpoint).await?;
    while let Some(tables) = some_relations(&mut connection).await? {
        connection.query(&format!("DROP TABLE {tables}")).await?;
    }
    let drop = format!("DROP SCHEMA IF EXISTS {SCHEMA} CASCADE");
    connection.query(&drop).await?;
    connection.close().await;
    Ok(())
}

async fn some_relations(connection: &mut Connection) -> Result<Option<String>, Error> {
    let sql = format!(
        "SELECT string_agg('{SCHEMA}.' || tablename, ', ') FROM \
         (SELECT tablename FROM pg_tables WHERE schemaname = '{SCHEMA}' AND tablename LIKE 'relation\\_%' LIMIT 500) AS portion"
    );
    let answer = connection.query(&sql).await?;
    Ok(answer.first.into_iter().next().flatten())
}
