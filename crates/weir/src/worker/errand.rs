//! Questions to a database's catalogue: the next server connection that is free puts them, before it serves clients again. What it tells goes to
//! the control thread (`control/learn.rs`), which draws the conclusions.

use super::Worker;
use super::server::Duty;
use crate::shared::{
    CatalogAnswer, CatalogTold, Catalogue, DatabaseState, Errand, Pool, Shared, ToControl,
    Unanswered,
};
use pooling::census::Evidence;
use pooling::conversation::Own;
use pooling::ledger::PoolId;
use sql::learn::{self, Catalog, Part};
use std::sync::Arc;
use wire::WireError;
use wire::backend::DataRow;

/// The client that had the connection before may have left limits that are too short for this, in milliseconds; planning takes longer than
/// compiling saves.
const CIRCUMSTANCES: &str = "SET LOCAL statement_timeout TO 60000; SET LOCAL jit TO off";
/// Of one answer, in bytes; about as much as a million objects.
const ANSWER_MAX: usize = 256 << 20;

/// An answer in the making. Whatever becomes of it, the control thread is told when it is dropped.
pub struct Reading {
    shared: Arc<Shared>,
    pool: Arc<Pool>,
    /// `Catalogue::changes` when the question was put.
    changes: u32,
    errand: Errand,
    catalog: Catalog,
    fingerprint: Box<str>,
    bytes: usize,
    progress: Progress,
}

enum Progress {
    Running,
    Complete,
    Failed(Box<str>),
}

impl Reading {
    fn new(shared: &Arc<Shared>, pool: &Arc<Pool>, errand: Errand) -> Reading {
        Reading {
            shared: Arc::clone(shared),
            pool: Arc::clone(pool),
            changes: pool.state.catalogue.changes(),
            errand,
            catalog: Catalog::default(),
            fingerprint: "".into(),
            bytes: 0,
            progress: Progress::Running,
        }
    }

    /// Everything in one Query, and in one transaction.
    fn sql(&self) -> String {
        let parts: Vec<&str> = match self.errand {
            Errand::Fingerprint => Vec::new(),
            Errand::Names => learn::QUERIES.iter().map(|query| query.sql).collect(),
        };
        let mut statements = vec![learn::BEGIN, CIRCUMSTANCES];
        statements.extend(parts);
        statements.extend([learn::FINGERPRINT, learn::END]);
        statements.join("; ")
    }

    /// # Errors
    /// A DataRow that is none.
    pub fn row(&mut self, body: &[u8]) -> Result<(), WireError> {
        let row = DataRow::parse(body)?;
        let columns: Vec<&[u8]> = row
            .values()
            .map(|value| value.unwrap_or_default())
            .collect();
        self.bytes += body.len();
        match (Part::with_columns(columns.len()), columns.as_slice()) {
            _ if self.bytes > ANSWER_MAX => self.fail("there is too much in it"),
            (Some(part), row) => {
                if let Err(bad) = self.catalog.add(part, row) {
                    self.fail(&bad.to_string());
                }
            }
            (None, [fingerprint]) => self.fingerprint = String::from_utf8_lossy(fingerprint).into(),
            (None, _) => self.fail("a row of another query"),
        }
        Ok(())
    }

    pub fn fail(&mut self, why: &str) {
        self.progress = Progress::Failed(why.into());
    }

    pub fn done(&mut self) {
        if matches!(self.progress, Progress::Running) {
            self.progress = Progress::Complete;
        }
    }

    fn told(&mut self) -> Result<CatalogTold, Unanswered> {
        let fingerprint = std::mem::take(&mut self.fingerprint);
        match &self.progress {
            Progress::Running => Err(Unanswered::Lost(self.errand)),
            Progress::Failed(why) => Err(Unanswered::Refused(why.clone())),
            Progress::Complete if self.errand == Errand::Fingerprint => {
                Ok(CatalogTold::Fingerprint(fingerprint))
            }
            Progress::Complete => Ok(CatalogTold::Names {
                catalog: std::mem::take(&mut self.catalog),
                fingerprint,
            }),
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let answer = CatalogAnswer {
            pool: Arc::clone(&self.pool),
            changes: self.changes,
            told: self.told(),
        };
        self.shared
            .tell_control(ToControl::CatalogRead(Box::new(answer)));
    }
}

impl Worker {
    /// A free server connection puts the question that waits; or it waits until the catalogue has been read. True if it serves nobody now.
    pub(super) fn is_detained(&mut self, index: usize) -> bool {
        let id = self.servers[index].pool_id();
        let Some(pool) = self.pools[id.0 as usize].as_deref_mut() else {
            return false;
        };
        if pool.watch.is_none() {
            return false;
        }
        let catalogue: &Catalogue = &pool.shared.state.catalogue;
        if let Some(errand) = catalogue.take_errand() {
            pool.coming += 1;
            self.run_errand(index, errand);
            return true;
        }
        if !catalogue.is_open() {
            self.servers[index].duty = Duty::Held;
            return true;
        }
        false
    }

    fn run_errand(&mut self, index: usize, errand: Errand) {
        let server = &mut self.servers[index];
        let reading = Reading::new(&self.shared, &server.pool, errand);
        let sql = reading.sql();
        server.duty = Duty::Errand { since: self.now };
        server.reading = Some(Box::new(reading));
        self.say_own_query(index, Own::Catalog, sql.as_bytes());
    }

    pub(super) fn catalog_row(&mut self, index: usize, body: &[u8]) {
        let server = &mut self.servers[index];
        let reading = server.reading.as_mut();
        if reading.is_some_and(|reading| reading.row(body).is_err()) {
            server.blemish = Some("it did not say what is in its catalogue");
        }
    }

    /// What failed has left its transaction open.
    pub(super) fn catalog_told(&mut self, index: usize, failed: bool) {
        if let Some(reading) = self.servers[index].reading.as_mut() {
            reading.done();
        }
        if failed {
            self.say_own_query(index, Own::Rollback, b"ROLLBACK");
        }
    }

    pub(super) fn errand_settled(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.reading = None;
        server.duty = Duty::Held;
        self.arrived(self.servers[index].pool_id());
        self.free(index);
    }

    /// An errand waits, and a server connection was idle here.
    pub(super) fn send_idle(&mut self, id: PoolId) {
        let idle = self.pool(id).and_then(|pool| pool.idle.front().copied());
        if let Some(index) = idle {
            self.unlist(index);
            self.servers[index].duty = Duty::Held;
            self.free(index);
        }
    }

    /// A client's transaction may have changed the catalogue: from now on every statement may do anything.
    pub(super) fn catalog_changed(&mut self, index: usize, evidence: &Evidence) {
        let pool = Arc::clone(&self.servers[index].pool);
        let was_known = pool.state.catalogue.changed(&evidence.names);
        let of_database = |state: &Arc<DatabaseState>| Arc::ptr_eq(state, &pool.state);
        let pools: Vec<PoolId> = self
            .pools
            .iter()
            .flatten()
            .map(|local| &local.shared)
            .filter(|shared| of_database(&shared.state))
            .map(|shared| shared.id)
            .collect();
        for id in pools {
            self.renew_pool(id);
        }
        if was_known {
            self.shared.tell_control(ToControl::CatalogChanged(pool));
        }
    }

    /// Something about the pool or its database has changed. What clients are doing was looked at by the words of before.
    pub(super) fn renew_pool(&mut self, id: PoolId) {
        let Some(pool) = self.pool(id) else { return };
        let version = |watch: &Option<Arc<pooling::Watch>>| watch.as_ref().map(|it| it.version());
        let before = version(&pool.watch);
        pool.renew();
        let unknown = pool.watch.as_ref().is_some_and(|watch| !watch.is_known());
        if !unknown || version(&pool.watch) == before {
            return;
        }
        for (_, server) in &mut self.servers {
            if server.pool_id() == id && server.client().is_some() {
                server.conversation.doubt_words();
            }
        }
    }

    /// Server connections that are clean, and wait for the catalogue to be read or for nothing any more.
    pub(super) fn free_held(&mut self, id: PoolId) {
        let waits = |server: &super::server::Server| {
            server.pool_id() == id && server.duty == Duty::Held && server.cancels == 0
        };
        let held: Vec<usize> = self
            .servers
            .iter()
            .filter(|(_, server)| waits(server))
            .map(|(index, _)| index)
            .collect();
        for index in held {
            self.free(index);
        }
    }
}
