//! One worker's part of a pool: its idle server connections and its waiting clients.

use super::channels::Subscriptions;
use crate::report::Totals;
use crate::shared::{Cell, Pool};
use pooling::statements::StatementCache;
use pooling::{Time, Watch};
use settings::{CensusPolicy, PoolMode, PoolSettings};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub struct LocalPool {
    pub shared: Arc<Pool>,
    pub settings: Arc<PoolSettings>,
    /// The one that was used last is at the back.
    pub idle: VecDeque<usize>,
    pub waiting: VecDeque<Waiter>,
    pub statements: StatementCache,
    /// What statements are looked at for; `None` where server connections are not shared between transactions, or nobody wants to know.
    pub watch: Option<Arc<Watch>>,
    /// Server connections that waiting clients may count on: dials, idle ones of other workers, and those being checked.
    pub coming: usize,
    pub subscriptions: Subscriptions,
    pub wish: Wished,
    pub totals: Totals,
    pub clients: u32,
    pub active_clients: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiter {
    pub client: usize,
    pub since: Time,
}

/// The client of another worker that has waited longest there.
pub struct Elsewhere {
    worker: usize,
    pub since: Time,
    pub stranded: bool,
}

impl Elsewhere {
    fn read(worker: usize, cell: &Cell) -> Option<Elsewhere> {
        let since = cell.oldest_waiter.load(Ordering::SeqCst).checked_sub(1)?;
        Some(Elsewhere {
            worker,
            since: Time(since),
            stranded: cell.stranded.load(Ordering::SeqCst),
        })
    }
}

/// Whether the ledger has this worker's wish for one more server connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wished {
    No,
    Noted,
}

fn watch(pool: &Pool, settings: &PoolSettings) -> Option<Arc<Watch>> {
    if settings.mode == PoolMode::Session {
        return None;
    }
    let known = pool.state.catalogue.watch();
    match settings.census {
        CensusPolicy::Auto => Some(Arc::clone(&known)),
        CensusPolicy::Always => Some(Arc::new(known.outdated(&[]))),
        CensusPolicy::Off => None,
    }
}

impl LocalPool {
    pub fn new(shared: Arc<Pool>, statement_key: [u8; 16]) -> LocalPool {
        let settings = shared.settings.load_full();
        let cache_bytes =
            usize::try_from(settings.prepared_statement_cache_bytes).unwrap_or(usize::MAX);
        LocalPool {
            idle: VecDeque::new(),
            waiting: VecDeque::new(),
            statements: StatementCache::new(
                statement_key,
                cache_bytes,
                Arc::clone(&shared.editions),
            ),
            coming: 0,
            subscriptions: Subscriptions::default(),
            wish: Wished::No,
            totals: Totals::default(),
            clients: 0,
            active_clients: 0,
            watch: watch(&shared, &settings),
            shared,
            settings,
        }
    }

    /// The pool's settings have changed, or what is known of its database.
    pub fn renew(&mut self) {
        self.settings = self.shared.settings.load_full();
        self.watch = watch(&self.shared, &self.settings);
    }

    /// Whether a client of the pool has asked for sequence values.
    pub fn reads_sequences(&self) -> bool {
        self.shared.reads_sequences.load(Ordering::Relaxed)
    }

    /// A server connection asks what clients' statements may do: before that is known, none serves anybody.
    pub fn awaits_catalogue(&self) -> bool {
        let catalogue = &self.shared.state.catalogue;
        self.watch.is_some() && !catalogue.is_open() && !catalogue.is_wanted()
    }

    /// Tells the other workers how many idle server connections there are here.
    pub fn publish_idle(&self, worker: usize) {
        let idle = self.idle.len() as u32;
        self.shared.cells[worker].idle.store(idle, self.ordering());
    }

    /// Among workers each side tells before it looks; with one worker there is nobody to miss.
    fn ordering(&self) -> Ordering {
        match self.shared.cells.len() {
            1 => Ordering::Relaxed,
            _ => Ordering::SeqCst,
        }
    }

    /// Tells the other workers since when the oldest client waits here.
    pub fn publish_waiting(&self, worker: usize) {
        let oldest = self.waiting.front().map_or(0, |waiter| waiter.since.0 + 1);
        let (cell, ordering) = (&self.shared.cells[worker], self.ordering());
        cell.stranded.store(!self.expects_one_back(), ordering);
        cell.oldest_waiter.store(oldest, ordering);
    }

    /// A server connection that a client here holds will be free soon.
    pub fn expects_one_back(&self) -> bool {
        self.active_clients > 0 && self.settings.mode != PoolMode::Session
    }

    /// The worker, other than this one, whose client has waited longest, of those that are `entitled`.
    pub fn oldest_elsewhere(
        &self,
        worker: usize,
        entitled: impl Fn(&Elsewhere) -> bool,
    ) -> Option<usize> {
        if self.shared.cells.len() == 1 {
            return None;
        }
        let cells = self.shared.cells.iter().enumerate();
        let others = cells.filter(|(number, _)| *number != worker);
        others
            .filter_map(|(number, cell)| Elsewhere::read(number, cell))
            .filter(entitled)
            .min_by_key(|other| other.since)
            .map(|other| other.worker)
    }

    /// A worker, other than this one, with an idle server connection.
    pub fn idle_elsewhere(&self, worker: usize) -> Option<usize> {
        let others = self
            .shared
            .cells
            .iter()
            .enumerate()
            .filter(|(number, _)| *number != worker);
        others
            .filter(|(_, cell)| cell.idle.load(Ordering::SeqCst) > 0)
            .map(|(number, _)| number)
            .next()
    }

    /// No client is here, and nothing has been asked for.
    pub fn is_unused(&self) -> bool {
        self.clients == 0
            && self.waiting.is_empty()
            && self.idle.is_empty()
            && self.coming == 0
            && self.wish == Wished::No
    }

    pub fn forget_waiter(&mut self, client: usize) {
        self.waiting.retain(|waiter| waiter.client != client);
    }
}
