//! A thousand clients in one process: open all of them, let each run one transaction, then measure.

use super::{CLIENTS, bank};
use crate::postgres::describe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_postgres::{Client, Config, NoTls};

/// How many clients connect at the same time: a queue of listeners is shorter than a thousand on some systems.
const CONNECTING: usize = 100;

/// What a progress display shows while the load runs.
#[derive(Debug, Default)]
pub struct Progress {
    pub opened: AtomicU64,
    pub transactions: AtomicU64,
}

/// Clients that are connected and have run a transaction.
#[derive(Debug)]
pub struct Crowd {
    pub clients: Vec<Client>,
    /// From the first connect to the last answer.
    pub opening: Duration,
    /// Why the others are not there; the first reason.
    pub refusal: Option<String>,
}

/// What all clients did together.
#[derive(Debug, Default)]
pub struct Work {
    /// From BEGIN to the answer to COMMIT, waiting for a server connection included; sorted.
    pub latencies: Vec<Duration>,
    pub failures: usize,
    /// The first failure's text.
    pub failure: Option<String>,
}

/// Connects all clients.
pub async fn open(config: &Config, progress: &Arc<Progress>) -> Crowd {
    let turns = Arc::new(Semaphore::new(CONNECTING));
    let began = Instant::now();
    let mut connecting = JoinSet::new();
    for _ in 0..CLIENTS {
        connecting.spawn(connect(config.clone(), turns.clone(), progress.clone()));
    }
    let mut crowd = Crowd {
        clients: Vec::with_capacity(CLIENTS),
        opening: Duration::ZERO,
        refusal: None,
    };
    while let Some(ended) = connecting.join_next().await {
        match ended
            .map_err(|panic| panic.to_string())
            .and_then(|connected| connected)
        {
            Ok(client) => crowd.clients.push(client),
            Err(reason) => crowd.refusal = crowd.refusal.or(Some(reason)),
        }
    }
    crowd.opening = began.elapsed();
    crowd
}

async fn connect(
    config: Config,
    turns: Arc<Semaphore>,
    progress: Arc<Progress>,
) -> Result<Client, String> {
    let _turn = turns.acquire().await;
    let (client, connection) = config
        .connect(NoTls)
        .await
        .map_err(|error| describe(&error))?;
    // It ends when its client is dropped; an error reaches the client's next call.
    tokio::spawn(connection);
    progress.opened.fetch_add(1, Ordering::Relaxed);
    Ok(client)
}

/// Each client runs one transaction that is not measured: first plans, first pages, first server connections.
pub async fn warm_up(clients: Vec<Client>) -> Vec<Client> {
    let mut warming = JoinSet::new();
    for client in clients {
        warming.spawn(async move {
            // A failure shows when the client is measured.
            let _ = bank::transact(&client).await;
            client
        });
    }
    warming.join_all().await
}

/// All clients run transactions for `length`; those that end later do not count.
pub async fn work(
    clients: Vec<Client>,
    length: Duration,
    progress: &Arc<Progress>,
) -> (Vec<Client>, Work) {
    let end = Instant::now() + length;
    let mut working = JoinSet::new();
    for client in clients {
        let progress = progress.clone();
        working.spawn(async move {
            let work = work_alone(&client, end, &progress).await;
            (client, work)
        });
    }
    let (clients, works): (Vec<_>, Vec<_>) = working.join_all().await.into_iter().unzip();
    (clients, together(works))
}

async fn work_alone(client: &Client, end: Instant, progress: &Progress) -> Work {
    let mut work = Work::default();
    while think(end).await && !client.is_closed() {
        let began = Instant::now();
        let done = bank::transact(client).await;
        let now = Instant::now();
        if now >= end {
            break;
        }
        match done {
            Ok(()) => {
                work.latencies.push(now - began);
                progress.transactions.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                work.failures += 1;
                work.failure = Some(describe(&error));
            }
        }
    }
    work
}

/// Pauses as long as a client does between two transactions; false when the load has ended meanwhile.
async fn think(end: Instant) -> bool {
    let pause = bank::PAUSE_MAX.mul_f64(rand::random());
    let next = Instant::now() + pause;
    tokio::time::sleep_until(next.min(end).into()).await;
    next < end
}

fn together(works: Vec<Work>) -> Work {
    let mut all = Work::default();
    for work in works {
        all.latencies.extend(work.latencies);
        all.failures += work.failures;
        all.failure = all.failure.or(work.failure);
    }
    all.latencies.sort_unstable();
    all
}
