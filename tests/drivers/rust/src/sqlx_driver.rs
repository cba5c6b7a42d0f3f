//! sqlx: its pool, its statement cache of every size, streams that are dropped half-read, COPY.

use crate::scenario::{Count, by_many, clients, equal, pool_size};
use anyhow::{Context, Result, bail, ensure};
use futures_util::TryStreamExt;
use sqlx::postgres::{
    PgConnectOptions, PgConnection, PgPool, PgPoolCopyExt, PgPoolOptions, PgSslMode,
};
use sqlx::{AssertSqlSafe, Connection, Row};
use std::env::var;
use std::time::{Duration, Instant};

pub async fn run(count: &mut Count) {
    count.scenario("sqlx: pool", pooled()).await;
    count
        .scenario("sqlx: statement caches", statement_caches())
        .await;
    count.scenario("sqlx: transactions", transactions()).await;
    count.scenario("sqlx: streams", streams()).await;
    count.scenario("sqlx: COPY", copies()).await;
    count.scenario("sqlx: queries given up", given_up()).await;
    count
        .scenario(
            "sqlx: no more server connections than the pool has",
            no_more_server_connections(),
        )
        .await;
}

fn options() -> Result<PgConnectOptions> {
    Ok(PgConnectOptions::new()
        .host(&var("PGHOST")?)
        .port(var("PGPORT")?.parse()?)
        .username(&var("PGUSER")?)
        .password(&var("PGPASSWORD")?)
        .database(&var("PGDATABASE")?)
        .ssl_mode(PgSslMode::Disable))
}

async fn pool() -> Result<PgPool> {
    let size = clients() as u32;
    Ok(PgPoolOptions::new()
        .min_connections(size)
        .max_connections(size)
        .connect_with(options()?)
        .await?)
}

async fn fresh_table(name: &str) -> Result<()> {
    let sql = format!(
        "DROP TABLE IF EXISTS {name}; CREATE TABLE {name} (id int PRIMARY KEY, client int, text text)"
    );
    let mut connection = PgConnection::connect_with(&options()?).await?;
    sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await?;
    Ok(connection.close().await?)
}

fn refused<T>(outcome: sqlx::Result<T>, state: &str) -> Result<()> {
    let Err(error) = outcome else {
        bail!("{state} expected")
    };
    let found = error.as_database_error().and_then(|error| error.code());
    if found.as_deref() == Some(state) {
        return Ok(());
    }
    Err(error).context(format!("{state} expected"))
}

async fn pooled() -> Result<()> {
    fresh_table("sqlx_pool").await?;
    let pool = &pool().await?;
    by_many(|client| async move {
        for n in 0..20 {
            let id = client * 100 + n;
            let insert = || {
                sqlx::query("INSERT INTO sqlx_pool VALUES ($1, $2, $3)")
                    .bind(id)
                    .bind(client)
            };
            insert().bind(format!("text {n}")).execute(pool).await?;
            let found: (i32, String) =
                sqlx::query_as("SELECT client, text FROM sqlx_pool WHERE id = $1")
                    .bind(id)
                    .fetch_one(pool)
                    .await?;
            equal(found, (client, format!("text {n}")))?;
            refused(insert().bind("").execute(pool).await, "23505")?;
            refused(
                sqlx::query("SELECT 1 / $1").bind(0).fetch_one(pool).await,
                "22012",
            )?;
            refused(
                sqlx::query("SELECT no_column").fetch_one(pool).await,
                "42703",
            )?;
        }
        Ok(())
    })
    .await?;
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlx_pool")
        .fetch_one(pool)
        .await?;
    pool.close().await;
    equal(count, clients() as i64 * 20)
}

async fn statement_caches() -> Result<()> {
    by_many(|client| async move {
        let capacity = [0, 1, 100][client as usize % 3];
        let mut connection =
            PgConnection::connect_with(&options()?.statement_cache_capacity(capacity)).await?;
        for n in 0..40 {
            let kind = n * 7 % 9;
            let sql = format!("SELECT $1::int * {kind}");
            let found: i32 = sqlx::query_scalar(AssertSqlSafe(sql))
                .bind(client)
                .fetch_one(&mut connection)
                .await?;
            equal(found, client * kind)?;
            let unnamed = sqlx::query("SELECT $1::text")
                .bind("once")
                .persistent(false)
                .fetch_one(&mut connection)
                .await?;
            equal(unnamed.get::<String, _>(0), "once".to_owned())?;
        }
        Ok(connection.close().await?)
    })
    .await
}

async fn transactions() -> Result<()> {
    fresh_table("sqlx_transactions").await?;
    let pool = &pool().await?;
    by_many(|client| async move {
        for n in 0..10 {
            let mut transaction = pool.begin().await?;
            let insert = || {
                sqlx::query("INSERT INTO sqlx_transactions VALUES ($1, $2, '')")
                    .bind(client * 100 + n)
                    .bind(client)
            };
            insert().execute(&mut *transaction).await?;
            let mut savepoint = transaction.begin().await?;
            refused(insert().execute(&mut *savepoint).await, "23505")?;
            savepoint.rollback().await?;
            let count: i64 =
                sqlx::query_scalar("SELECT count(*) FROM sqlx_transactions WHERE client = $1")
                    .bind(client)
                    .fetch_one(&mut *transaction)
                    .await?;
            equal(count, i64::from((n + 1) / 2 + 1))?;
            match n % 2 {
                0 => transaction.commit().await?,
                _ => drop(transaction), // rolls back when the connection is used again
            }
        }
        Ok(())
    })
    .await?;
    pool.close().await;
    Ok(())
}

/// A stream that is dropped leaves rows to be read before the next statement.
async fn streams() -> Result<()> {
    by_many(|client| async move {
        let mut connection = PgConnection::connect_with(&options()?).await?;
        for n in 0..5 {
            let mut rows = sqlx::query("SELECT n + $1 FROM generate_series(0, 20000) n")
                .bind(client)
                .fetch(&mut connection);
            for expected in client..client + 10 {
                let row = rows.try_next().await?.context("there are more rows")?;
                equal(row.get::<i32, _>(0), expected)?;
            }
            drop(rows);
            let failing = sqlx::query("SELECT 1 / (50 - n) FROM generate_series(1, 100) n")
                .fetch(&mut connection);
            refused(failing.try_collect::<Vec<_>>().await, "22012")?;
            equal(
                sqlx::query_scalar::<_, i32>("SELECT $1::int")
                    .bind(n)
                    .fetch_one(&mut connection)
                    .await?,
                n,
            )?;
        }
        Ok(connection.close().await?)
    })
    .await
}

async fn copies() -> Result<()> {
    fresh_table("sqlx_copies").await?;
    let pool = &pool().await?;
    by_many(|client| async move {
        let lines: String = (0..2000)
            .map(|n| format!("{}\t{client}\ttext {n}\n", client * 10_000 + n))
            .collect();
        let mut copy = pool.copy_in_raw("COPY sqlx_copies FROM STDIN").await?;
        copy.send(lines.as_bytes()).await?;
        equal(copy.finish().await?, 2000)?;
        let sql = format!(
            "COPY (SELECT * FROM sqlx_copies WHERE client = {client} ORDER BY id) TO STDOUT"
        );
        let parts: Vec<_> = pool.copy_out_raw(&sql).await?.try_collect().await?;
        ensure!(
            parts.concat() == lines.as_bytes(),
            "other lines come out than went in"
        );
        let mut copy = pool.copy_in_raw("COPY sqlx_copies FROM STDIN").await?;
        copy.send(&b"no number\n"[..]).await?;
        refused(copy.finish().await, "22P02")?;
        let copy = pool.copy_in_raw("COPY sqlx_copies FROM STDIN").await?;
        copy.abort("the program gives up").await?;
        let count: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlx_copies WHERE client = $1")
            .bind(client)
            .fetch_one(pool)
            .await?;
        equal(count, 2000)
    })
    .await?;
    pool.close().await;
    Ok(())
}

/// A future that is dropped: the connection is closed with its statement running, which must end on the server.
async fn given_up() -> Result<()> {
    const SLEEP: &str = "SELECT pg_sleep(68)";
    by_many(|_| async {
        let mut connection = PgConnection::connect_with(&options()?).await?;
        let outcome = tokio::time::timeout(
            Duration::from_millis(200),
            sqlx::query(SLEEP).execute(&mut connection),
        )
        .await;
        ensure!(outcome.is_err(), "a timeout expected");
        Ok(())
    })
    .await?;
    let pool = pool().await?;
    let deadline = Instant::now() + Duration::from_secs(20);
    let count = || {
        sqlx::query_scalar::<_, i64>(
            "SELECT count(*) FROM pg_stat_activity WHERE query = $1 AND state = 'active'",
        )
        .bind(SLEEP)
    };
    while count().fetch_one(&pool).await? > 0 {
        ensure!(
            Instant::now() < deadline,
            "statements that nobody waits for go on"
        );
    }
    pool.close().await;
    Ok(())
}

async fn no_more_server_connections() -> Result<()> {
    let mut connection = PgConnection::connect_with(&options()?).await?;
    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE usename = current_user")
            .fetch_one(&mut connection)
            .await?;
    ensure!(count <= pool_size() as i64, "{count} server connections");
    Ok(())
}
