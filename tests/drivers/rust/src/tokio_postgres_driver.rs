//! tokio-postgres: pipelines of statements, portals, COPY, cancel requests.

use crate::scenario::{Count, by_many, equal, pool_size};
use anyhow::{Context, Result, bail, ensure};
use futures_util::future::{join_all, try_join_all};
use futures_util::{SinkExt, TryStreamExt, pin_mut};
use std::env::var;
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls};

pub async fn run(count: &mut Count) {
    count
        .scenario("tokio-postgres: statements", statements())
        .await;
    count
        .scenario("tokio-postgres: pipelines", pipelines())
        .await;
    count
        .scenario("tokio-postgres: dropped statements", dropped_statements())
        .await;
    count
        .scenario("tokio-postgres: transactions", transactions())
        .await;
    count.scenario("tokio-postgres: portals", portals()).await;
    count.scenario("tokio-postgres: COPY", copies()).await;
    count
        .scenario("tokio-postgres: types of its own", introspection())
        .await;
    count.scenario("tokio-postgres: cancel", cancel()).await;
}

async fn connect() -> Result<Client> {
    let (client, connection) = Config::new()
        .host(var("PGHOST")?)
        .port(var("PGPORT")?.parse()?)
        .user(var("PGUSER")?)
        .password(var("PGPASSWORD")?)
        .dbname(var("PGDATABASE")?)
        .connect(NoTls)
        .await?;
    // Ends with the client; what goes wrong, the client hears.
    tokio::spawn(connection);
    Ok(client)
}

async fn fresh_table(name: &str) -> Result<()> {
    let sql = format!(
        "DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (id int PRIMARY KEY, client int, text text)"
    );
    connect().await?.batch_execute(&sql).await?;
    Ok(())
}

fn refused<T>(outcome: Result<T, Error>, state: &SqlState) -> Result<()> {
    match outcome {
        Ok(_) => bail!("{state:?} expected"),
        Err(error) if error.code() == Some(state) => Ok(()),
        Err(error) => Err(error).context(format!("{state:?} expected")),
    }
}

async fn statements() -> Result<()> {
    fresh_table("rust_statements").await?;
    by_many(|number| async move {
        let client = connect().await?;
        let insert = client
            .prepare("INSERT INTO rust_statements VALUES ($1, $2, $3)")
            .await?;
        let select = client
            .prepare_typed(
                "SELECT text FROM rust_statements WHERE id = $1",
                &[Type::INT4],
            )
            .await?;
        for n in 0..15 {
            let (id, text) = (number * 100 + n, format!("text {n}"));
            equal(client.execute(&insert, &[&id, &number, &text]).await?, 1)?;
            equal(client.query_one(&select, &[&id]).await?.get(0), text)?;
            refused(
                client.execute(&insert, &[&id, &number, &""]).await,
                &SqlState::UNIQUE_VIOLATION,
            )?;
            refused(
                client.query("SELECT 1 / $1::int", &[&0]).await,
                &SqlState::DIVISION_BY_ZERO,
            )?;
            refused(
                client.prepare("SELECT no_column").await,
                &SqlState::UNDEFINED_COLUMN,
            )?;
            let rows = client
                .query_typed(
                    "SELECT $1::int + $2",
                    &[(&n, Type::INT4), (&number, Type::INT4)],
                )
                .await?;
            equal(rows[0].get::<_, i32>(0), n + number)?;
        }
        let messages = client.simple_query("SELECT 1; SELECT 2; SELECT 3").await?;
        ensure!(messages.len() >= 6, "{messages:?}");
        Ok(())
    })
    .await
}

/// All futures of a client are in flight at once: one connection, many Syncs.
async fn pipelines() -> Result<()> {
    by_many(|number| async move {
        let client = connect().await?;
        let add = client
            .prepare(&format!("SELECT $1::int + {number}"))
            .await?;
        for _ in 0..5 {
            let numbers: Vec<i32> = (0..60).collect();
            let sums = numbers.iter().map(|n| async {
                anyhow::Ok(client.query_one(&add, &[n]).await?.get::<_, i32>(0))
            });
            equal(try_join_all(sums).await?, (number..number + 60).collect())?;
            let divisions = join_all(
                numbers
                    .iter()
                    .map(|n| async { client.query_one("SELECT 60 / ($1::int % 3)", &[n]).await }),
            )
            .await;
            for (n, outcome) in divisions.into_iter().enumerate() {
                match n % 3 {
                    0 => refused(outcome, &SqlState::DIVISION_BY_ZERO)?,
                    rest => equal(outcome?.get::<_, i32>(0) as usize, 60 / rest)?,
                }
            }
        }
        Ok(())
    })
    .await
}

/// The driver closes a statement when its last handle goes, without waiting.
async fn dropped_statements() -> Result<()> {
    by_many(|number| async move {
        let client = connect().await?;
        for n in 0..50 {
            let kind = n % 4;
            let statement = client.prepare(&format!("SELECT $1::int * {kind}")).await?;
            equal(
                client.query_one(&statement, &[&number]).await?.get(0),
                number * kind,
            )?;
        }
        Ok(())
    })
    .await
}

async fn transactions() -> Result<()> {
    fresh_table("rust_transactions").await?;
    by_many(|number| async move {
        let mut client = connect().await?;
        for n in 0..10 {
            let mut transaction = client.transaction().await?;
            let id = number * 100 + n;
            transaction
                .execute(
                    "INSERT INTO rust_transactions VALUES ($1, $2, '')",
                    &[&id, &number],
                )
                .await?;
            let savepoint = transaction.savepoint("here").await?;
            refused(
                savepoint
                    .execute(
                        "INSERT INTO rust_transactions VALUES ($1, $2, '')",
                        &[&id, &number],
                    )
                    .await,
                &SqlState::UNIQUE_VIOLATION,
            )?;
            refused(
                savepoint.query("SELECT 1", &[]).await,
                &SqlState::IN_FAILED_SQL_TRANSACTION,
            )?;
            savepoint.rollback().await?;
            let count = transaction
                .query_one(
                    "SELECT count(*) FROM rust_transactions WHERE client = $1",
                    &[&number],
                )
                .await?;
            equal(count.get::<_, i64>(0), i64::from((n + 1) / 2 + 1))?;
            match n % 2 {
                0 => transaction.commit().await?,
                _ => drop(transaction), // rolls back, without waiting
            }
        }
        Ok(())
    })
    .await
}

async fn portals() -> Result<()> {
    by_many(|number| async move {
        let mut client = connect().await?;
        let transaction = client.transaction().await?;
        let portal = transaction
            .bind(
                "SELECT n * $1::int FROM generate_series(1, 100) n",
                &[&number],
            )
            .await?;
        let other = transaction
            .bind("SELECT 10 / (3 - n) FROM generate_series(1, 9) n", &[])
            .await?;
        for part in 0..4 {
            let rows = transaction.query_portal(&portal, 30).await?;
            let found: Vec<i32> = rows.iter().map(|row| row.get(0)).collect();
            equal(
                found,
                (part * 30 + 1..=(part * 30 + 30).min(100))
                    .map(|n| n * number)
                    .collect(),
            )?;
        }
        refused(
            transaction.query_portal(&other, 5).await,
            &SqlState::DIVISION_BY_ZERO,
        )?;
        transaction.rollback().await?;
        equal(
            client.query_one("SELECT $1::int", &[&number]).await?.get(0),
            number,
        )
    })
    .await
}

async fn copies() -> Result<()> {
    fresh_table("rust_copies").await?;
    by_many(|number| async move {
        let client = connect().await?;
        let lines: String = (0..3000)
            .map(|n| format!("{}\t{number}\ttext {n}\n", number * 10_000 + n))
            .collect();
        let sink = client.copy_in("COPY rust_copies FROM STDIN").await?;
        pin_mut!(sink);
        for part in lines.as_bytes().chunks(1000) {
            sink.send(std::io::Cursor::new(part.to_vec())).await?;
        }
        equal(sink.finish().await?, 3000)?;
        let out = client
            .copy_out(&format!(
                "COPY (SELECT * FROM rust_copies WHERE client = {number} ORDER BY id) TO STDOUT"
            ))
            .await?;
        let parts: Vec<_> = out.try_collect().await?;
        ensure!(
            parts.concat() == lines.as_bytes(),
            "other lines come out than went in"
        );
        let sink = client.copy_in("COPY rust_copies FROM STDIN").await?;
        pin_mut!(sink);
        sink.send(std::io::Cursor::new(b"no number\n".to_vec()))
            .await?;
        refused(sink.finish().await, &SqlState::INVALID_TEXT_REPRESENTATION)?;
        // Dropped before its end: the driver fails the COPY.
        drop(
            client
                .copy_in::<_, std::io::Cursor<Vec<u8>>>("COPY rust_copies FROM STDIN")
                .await?,
        );
        let count = client
            .query_one(
                "SELECT count(*) FROM rust_copies WHERE client = $1",
                &[&number],
            )
            .await?;
        equal(count.get::<_, i64>(0), 3000)
    })
    .await
}

/// The driver asks the catalog for a type that it does not know, in the middle of preparing a statement.
async fn introspection() -> Result<()> {
    let make = "DO $$ BEGIN CREATE TYPE rust_mood AS ENUM ('glad', 'sad'); EXCEPTION WHEN duplicate_object THEN NULL; END $$";
    connect().await?.batch_execute(make).await?;
    by_many(|number| async move {
        let client = connect().await?;
        let statement = client
            .prepare("SELECT $1::int, array['glad'::rust_mood, 'sad']")
            .await?;
        equal(statement.columns()[1].type_().name(), "_rust_mood")?;
        equal(
            client.query_one(&statement, &[&number]).await?.get(0),
            number,
        )
    })
    .await
}

async fn cancel() -> Result<()> {
    let observer = connect().await?;
    let sleepers = (1..pool_size()).map(|number| cancel_one(&observer, number));
    try_join_all(sleepers).await.map(drop)
}

async fn cancel_one(observer: &Client, number: usize) -> Result<()> {
    let client = connect().await?;
    let sleep = format!("SELECT pg_sleep(67), 'cancelled {number}'");
    let cancelled = async { refused(client.query(&sleep, &[]).await, &SqlState::QUERY_CANCELED) };
    let cancels = async {
        wait_until_running(observer, &sleep).await?;
        Ok(client.cancel_token().cancel_query(NoTls).await?)
    };
    tokio::try_join!(cancelled, cancels)?;
    for n in 0..10 {
        equal(client.query_one("SELECT $1::int", &[&n]).await?.get(0), n)?;
    }
    Ok(())
}

async fn wait_until_running(observer: &Client, sql: &str) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(20);
    let count = "SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'active'";
    while observer.query_one(count, &[&sql]).await?.get::<_, i64>(0) == 0 {
        ensure!(Instant::now() < deadline, "{sql} did not start");
    }
    Ok(())
}
