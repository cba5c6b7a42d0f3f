//! The scripts, run by the lab's own driver.

use super::script::{Script, Step, Variables, fill};
use super::{Job, LoadError, Outcome, Workload};
use crate::driver::{Clock, Connection, Crowd, Failure, Latencies};
use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Log-ins under way at a time: as pgbench, a few per core.
const IN_FLIGHT: u64 = 8;

/// What several clients did together.
#[derive(Debug, Default)]
pub struct Work {
    pub latencies: Latencies,
    pub failed: u64,
    pub failure: Option<String>,
}

/// One client that runs a workload again and again.
pub struct Worker {
    pub connection: Connection,
    workload: Arc<Workload>,
    chances: WeightedIndex<u32>,
    variables: Variables,
}

/// Runs `job` with connections of its own.
pub async fn run(job: Job<'_>, clock: &Clock) -> Result<Outcome, LoadError> {
    let crowd = Crowd::open(job.endpoint, job.clients, IN_FLIGHT, None).await;
    let crowd = crowd.complete(job.clients)?;
    let connecting_ms = crowd.opening.took.as_secs_f64() * 1_000.0;
    let began = Instant::now();
    let (workers, work) = Worker::work(
        Worker::of(crowd, job.workload),
        job.length,
        Duration::ZERO,
        clock,
    )
    .await;
    let seconds = began.elapsed().as_secs_f64();
    for worker in workers {
        worker.connection.close().await;
    }
    Ok(Outcome {
        connecting_ms,
        ..work.outcome(seconds)
    })
}

impl Work {
    /// `seconds` is how long it took.
    pub fn outcome(&self, seconds: f64) -> Outcome {
        let transactions = self.latencies.count();
        Outcome {
            tps: transactions as f64 / seconds,
            transactions,
            failed: self.failed,
            mean_ms: self.latencies.mean_ms(),
            p50_ms: self.latencies.percentile_ms(50.0),
            p99_ms: self.latencies.percentile_ms(99.0),
            connecting_ms: 0.0,
        }
    }
}

impl Worker {
    /// A worker for each connection.
    pub fn of(crowd: Crowd, workload: &Workload) -> Vec<Self> {
        let workload = Arc::new(workload.clone());
        let weights = workload.scripts.iter().map(|script| script.weight);
        let chances = WeightedIndex::new(weights).expect("a workload has scripts with weights");
        let worker = |connection| Self {
            connection,
            workload: workload.clone(),
            chances: chances.clone(),
            variables: Variables::new(),
        };
        crowd.members.into_iter().map(worker).collect()
    }

    /// All workers run for `length`, each thinking for `think` before every transaction.
    pub async fn work(
        workers: Vec<Self>,
        length: Duration,
        think: Duration,
        clock: &Clock,
    ) -> (Vec<Self>, Work) {
        let end = Instant::now() + length;
        let work = Arc::new(Mutex::new(Work::default()));
        let mut working = JoinSet::new();
        for mut worker in workers {
            let (work, clock) = (work.clone(), clock.clone());
            working.spawn(async move {
                worker.repeat(end, think, &clock, &work).await;
                worker
            });
        }
        let workers = working.join_all().await;
        let work = std::mem::take(&mut *work.lock().unwrap_or_else(PoisonError::into_inner));
        (workers, work)
    }

    /// Transactions that end after `end` do not count.
    pub async fn repeat(
        &mut self,
        end: Instant,
        think: Duration,
        clock: &Clock,
        work: &Mutex<Work>,
    ) {
        while self.pause(end, think, clock).await {
            let began = Instant::now();
            let done = self.transact().await;
            let now = Instant::now();
            if now >= end {
                return;
            }
            let mut work = work.lock().unwrap_or_else(PoisonError::into_inner);
            match done {
                Ok(()) => work.latencies.add(now - began),
                Err(failure) => {
                    work.failed += 1;
                    work.failure.get_or_insert_with(|| failure.to_string());
                    if let Failure::Lost(_) = failure {
                        return;
                    }
                }
            }
        }
    }

    /// One transaction.
    ///
    /// # Errors
    /// Its failure; a transaction that it leaves open is rolled back.
    pub async fn transact(&mut self) -> Result<(), Failure> {
        let chosen = self.chances.sample(&mut rand::rng());
        let workload = self.workload.clone();
        let done = self.run(&workload.scripts[chosen]).await;
        if let Err(Failure::Refused { .. }) = &done {
            // If this fails too, the next query says so.
            let _ = self.connection.query("ROLLBACK").await;
        }
        done
    }

    async fn run(&mut self, script: &Script) -> Result<(), Failure> {
        for step in &script.steps {
            match step {
                Step::Random { name, low, high } => {
                    let value = rand::random_range(*low..=*high).to_string();
                    self.variables.insert(name.clone(), value);
                }
                Step::Query(pieces) => {
                    let sql = fill(pieces, &self.variables);
                    self.connection.query(&sql).await?;
                }
                Step::QueryInto(pieces) => {
                    let sql = fill(pieces, &self.variables);
                    let answer = self.connection.query(&sql).await?;
                    let values = answer.first.into_iter().map(Option::unwrap_or_default);
                    self.variables
                        .extend(answer.columns.into_iter().zip(values));
                }
            }
        }
        Ok(())
    }

    /// False when the load has ended meanwhile.
    async fn pause(&self, end: Instant, think: Duration, clock: &Clock) -> bool {
        if !think.is_zero() {
            clock.sleep_until((Instant::now() + think).min(end)).await;
        }
        Instant::now() < end
    }
}
