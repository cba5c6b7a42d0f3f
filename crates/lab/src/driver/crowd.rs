//! Many connections at once: opened, held, closed.

use super::connection::{Connection, Failure};
use super::endpoint::Endpoint;
use super::latencies::Latencies;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Connections that are open.
#[derive(Default)]
pub struct Crowd {
    pub members: Vec<Connection>,
    pub opening: Opening,
}

/// How the opening went.
#[derive(Debug, Clone, Default)]
pub struct Opening {
    /// From the first attempt to the last answer.
    pub took: Duration,
    /// Of each log-in.
    pub latencies: Latencies,
    pub refused: u64,
    /// What the first refused one was told.
    pub refusal: Option<String>,
}

impl Crowd {
    /// Opens `count` connections, `in_flight` of them under way at a time. Each runs `hello`, if there is one.
    pub async fn open(
        endpoint: &Endpoint,
        count: u64,
        in_flight: u64,
        hello: Option<&'static str>,
    ) -> Self {
        let began = Instant::now();
        let tickets = Arc::new(AtomicU64::new(count));
        let mut openers = JoinSet::new();
        for _ in 0..in_flight.min(count) {
            let (endpoint, tickets) = (endpoint.clone(), tickets.clone());
            openers.spawn(async move { open_while_tickets_last(&endpoint, &tickets, hello).await });
        }
        let mut crowd = Crowd::default();
        for part in openers.join_all().await {
            crowd.members.extend(part.members);
            crowd.opening.add(part.opening);
        }
        crowd.opening.took = began.elapsed();
        crowd
    }

    /// What is missing to `count`, as an error.
    ///
    /// # Errors
    /// The first refusal.
    pub fn complete(self, count: u64) -> Result<Self, Failure> {
        if self.members.len() as u64 == count {
            return Ok(self);
        }
        let reason = self.opening.refusal.unwrap_or_default();
        Err(Failure::Refused {
            code: format!("{} of {count} connected", self.members.len()),
            message: reason,
        })
    }

    pub async fn close(self) {
        for member in self.members {
            member.close().await;
        }
    }
}

impl Opening {
    fn add(&mut self, other: Opening) {
        self.latencies.merge(&other.latencies);
        self.refused += other.refused;
        self.refusal = self.refusal.take().or(other.refusal);
    }

    fn note(&mut self, failure: &Failure) {
        self.refused += 1;
        self.refusal.get_or_insert_with(|| failure.to_string());
    }
}

async fn open_while_tickets_last(
    endpoint: &Endpoint,
    tickets: &AtomicU64,
    hello: Option<&str>,
) -> Crowd {
    let take = |left: u64| left.checked_sub(1);
    let mut crowd = Crowd::default();
    while tickets
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        .is_ok()
    {
        let began = Instant::now();
        match open_one(endpoint, hello).await {
            Ok(connection) => {
                crowd.opening.latencies.add(began.elapsed());
                crowd.members.push(connection);
            }
            Err(failure) => crowd.opening.note(&failure),
        }
    }
    crowd
}

async fn open_one(endpoint: &Endpoint, hello: Option<&str>) -> Result<Connection, Failure> {
    let mut connection = Connection::open(endpoint).await?;
    if let Some(sql) = hello {
        connection.query(sql).await?;
    }
    Ok(connection)
}
