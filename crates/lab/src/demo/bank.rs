//! The database of the demonstration and what its clients do.

use crate::postgres::{self, Server};
use std::time::Duration;
use tokio_postgres::{Client, Config};

pub const DATABASE: &str = "demo";
pub const ROLE: &str = "demo";
const ACCOUNTS: u32 = 100_000;
/// Longer than a thousand processes take to start on a small machine.
const CONNECT_PATIENCE: Duration = Duration::from_secs(120);

/// Only the powerless role comes in by TCP: anybody on this machine could.
pub const HBA: [&str; 1] = ["host demo demo 127.0.0.1/32 trust"];

/// Longest pause of a client between two transactions; the mean is half of it.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);

pub const DESCRIPTION: &str = "\
1,000 clients, each with a connection of its own, run transactions and pause up to 2 s in between, as those of an application do.
A transaction is BEGIN, UPDATE of one of 100,000 accounts, SELECT of it, INSERT into a history, COMMIT: five round trips, as
pgbench does it but without its few rows that everybody has to wait for. Nothing is forced to the disk (fsync = off): nothing
here has to survive. Clients, Weir and PostgreSQL share this machine.";

/// Creates the role, the database and its tables.
pub fn open(server: &Server) -> Result<(), postgres::Error> {
    server.execute(&format!("CREATE ROLE {ROLE} LOGIN"))?;
    server.execute(&format!("CREATE DATABASE {DATABASE}"))?;
    let tables = format!(
        "CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 80);
         CREATE TABLE history (account int, delta int, at timestamptz DEFAULT now());
         INSERT INTO accounts SELECT id, 0 FROM generate_series(1, {ACCOUNTS}) AS id;
         GRANT ALL ON accounts, history TO {ROLE};"
    );
    server.query(DATABASE, &tables)?;
    server.query(DATABASE, "VACUUM ANALYZE accounts").map(drop)
}

/// How a client connects to PostgreSQL or to Weir at `port`.
pub fn client(port: u16) -> Config {
    let mut config = Config::new();
    config
        .host("127.0.0.1")
        .port(port)
        .user(ROLE)
        .dbname(DATABASE)
        .connect_timeout(CONNECT_PATIENCE);
    config
}

/// One transaction.
pub async fn transact(client: &Client) -> Result<(), tokio_postgres::Error> {
    let account = rand::random_range(1..=ACCOUNTS);
    let delta = rand::random_range(-1_000..=1_000);
    client.batch_execute("BEGIN").await?;
    let update = format!("UPDATE accounts SET balance = balance + {delta} WHERE id = {account}");
    client.batch_execute(&update).await?;
    let select = format!("SELECT balance FROM accounts WHERE id = {account}");
    client.simple_query(&select).await?;
    let insert = format!("INSERT INTO history (account, delta) VALUES ({account}, {delta})");
    client.batch_execute(&insert).await?;
    client.batch_execute("COMMIT").await
}
