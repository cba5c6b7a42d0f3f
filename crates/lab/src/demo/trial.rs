//! One trial: the load against PostgreSQL or against Weir, and what is seen of PostgreSQL meanwhile.

use super::figures::Figures;
use super::load::{self, Progress};
use super::weir::Weir;
use super::{CLIENTS, Error, bank};
use crate::postgres::Server;
use crate::runtime;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Config};

/// How often the display and the number of server connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Resolution of the bar of the running load.
const TICKS_PER_SECOND: f64 = 10.0;

/// What is tried.
#[derive(Debug)]
pub struct Trial<'a> {
    pub name: &'static str,
    pub config: Config,
    pub length: Duration,
    /// Whose memory is measured too.
    pub weir: Option<&'a Weir>,
}

impl Trial<'_> {
    /// Opens the clients, lets them work and closes them; returns when PostgreSQL has no client of the load any more.
    pub async fn run(&self, server: &Server, watch: &Watch) -> Result<Figures, Error> {
        let progress = Arc::new(Progress::default());
        let crowd = self.open(&progress).await?;
        let opened = crowd.clients.len();
        let clients = load::warm_up(crowd.clients).await;
        let (clients, work, connections_max) = self.work(clients, &progress, watch).await?;
        // Now, while every client is still connected; reading a thousand processes' tables takes a moment.
        let figures = Figures {
            name: self.name,
            clients: opened,
            refusal: crowd.refusal,
            opening: crowd.opening,
            length: self.length,
            work,
            connections_max,
            postgres: server.memory()?,
            weir: self.weir.map(Weir::memory),
        };
        drop(clients);
        if self.weir.is_none() {
            watch.until_nobody_is_left().await?;
        }
        Ok(figures)
    }

    async fn open(&self, progress: &Arc<Progress>) -> Result<load::Crowd, Error> {
        let bar = bar(
            CLIENTS as u64,
            "{prefix:>12}: {bar:30} {pos} of {len} clients connected",
        );
        bar.set_prefix(self.name);
        let show = every_look(|| {
            bar.set_position(progress.opened.load(Ordering::Relaxed));
            std::future::ready(Ok(()))
        });
        let crowd = tokio::select! {
            crowd = load::open(&self.config, progress) => crowd,
            stopped = show => return Err(stopped),
        };
        bar.finish_and_clear();
        let (opened, took) = (crowd.clients.len(), crowd.opening.as_secs_f64());
        println!(
            "{:>12}: {opened} of {CLIENTS} clients connected in {took:.2} s",
            self.name
        );
        match (opened, &crowd.refusal) {
            (0, reason) => Err(Error::NoClient {
                to: self.name,
                reason: reason.clone().unwrap_or_default(),
            }),
            _ => Ok(crowd),
        }
    }

    /// The clients, what they did, and the most server connections that were seen.
    async fn work(
        &self,
        clients: Vec<Client>,
        progress: &Arc<Progress>,
        watch: &Watch,
    ) -> Result<(Vec<Client>, load::Work, usize), Error> {
        let ticks = (self.length.as_secs_f64() * TICKS_PER_SECOND) as u64;
        let bar = bar(ticks, "{prefix:>12}: {bar:30} {msg}");
        bar.set_prefix(self.name);
        let began = Instant::now();
        let mut most = 0;
        let mut look = async || {
            let connections = watch.connections().await?;
            most = most.max(connections);
            let done = progress.transactions.load(Ordering::Relaxed);
            bar.set_position((began.elapsed().as_secs_f64() * TICKS_PER_SECOND) as u64);
            bar.set_message(format!(
                "{done} transactions, {connections} server connections"
            ));
            Ok(())
        };
        let (clients, work) = tokio::select! {
            worked = load::work(clients, self.length, progress) => worked,
            stopped = every_look(&mut look) => return Err(stopped),
        };
        look().await?;
        bar.finish_and_clear();
        println!(
            "{:>12}: {} transactions on {most} server connections",
            self.name,
            work.latencies.len()
        );
        Ok((clients, work, most))
    }
}

/// Looks again and again; only an error ends it.
async fn every_look(mut look: impl AsyncFnMut() -> Result<(), Error>) -> Error {
    let mut clock = tokio::time::interval(LOOK_EVERY);
    loop {
        clock.tick().await;
        if let Err(error) = look().await {
            return error;
        }
    }
}

fn bar(len: u64, template: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(len).with_style(style)
}

/// A superuser's connection that sees what PostgreSQL is doing.
#[derive(Debug)]
pub struct Watch {
    client: Client,
}

impl Watch {
    pub async fn connect(server: &Server) -> Result<Self, Error> {
        let (client, connection) = server
            .superuser("postgres")
            .connect(tokio_postgres::NoTls)
            .await?;
        tokio::spawn(connection);
        Ok(Self { client })
    }

    /// Server connections to the demonstration's database, in `pg_stat_activity`.
    pub async fn connections(&self) -> Result<usize, Error> {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND backend_type = 'client backend'";
        let row = self.client.query_one(sql, &[&bank::DATABASE]).await?;
        Ok(usize::try_from(row.get::<_, i64>(0)).unwrap_or_default())
    }

    async fn until_nobody_is_left(&self) -> Result<(), Error> {
        while self.connections().await? > 0 {
            tokio::time::sleep(runtime::PAUSE).await;
        }
        Ok(())
    }
}
