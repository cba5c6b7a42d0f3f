//! A worker: one thread, one readiness loop, and the client sessions and server connections that it owns.
//!
//! A turn of the loop: wait; then for each batch of ready sockets receive, hand what came to the relay, send; then the mailbox;
//! then what is due. Read on in `relay` (messages), `checkout` (who gets a server connection), `giveback` (what happens when it is free
//! again), `post` (messages from other threads), `sweep` (what is due).

mod batch;
mod census;
mod channels;
mod checkout;
mod client;
mod connection;
mod downstream;
mod errand;
mod giveback;
mod local_pool;
mod mailbox;
mod observe;
mod outbox;
mod parameters;
mod part;
mod post;
mod reactor;
mod relay;
mod server;
mod sweep;
mod upstream;

pub use mailbox::Mailbox;
pub use server::{Server, ServerKey};

use crate::shared::Shared;
use client::Client;
use connection::{Connection, SpareInboxes};
use local_pool::LocalPool;
use outbox::Outbox;
use pooling::Time;
use pooling::conversation::Aside;
use pooling::ledger::PoolId;
use rand::{Rng, SeedableRng};
use reactor::{Interface, Outgoing, Reactor, Slots};
use rustc_hash::FxHashMap;
use slab::Slab;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// The worker threads of the process.
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
}

/// Starts the workers and makes their mailboxes known in `shared`.
///
/// # Errors
/// What the system says when a thread, its epoll or its io_uring cannot be had.
pub fn spawn(shared: Arc<Shared>, count: usize) -> io::Result<Workers> {
    let interface = choose(shared.config.load().general.reactor);
    let mut mailboxes = Vec::with_capacity(count);
    let mut threads = Vec::with_capacity(count);
    for index in 0..count {
        let shared = Arc::clone(&shared);
        let (sender, receiver) = mpsc::channel();
        let run = move || match Worker::new(shared, index, interface) {
            Ok(mut worker) => {
                let _ = sender.send(Ok(worker.mailbox.clone()));
                drop(sender);
                worker.run();
            }
            Err(error) => {
                let _ = sender.send(Err(error));
            }
        };
        threads.push(
            std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(run)?,
        );
        mailboxes.push(receiver.recv().map_err(io::Error::other)??);
    }
    shared
        .workers
        .set(mailboxes)
        .map_err(|_| io::Error::other("the workers have been started already"))?;
    Ok(Workers { threads })
}

/// `auto` takes io_uring where the kernel lets this process use it: many containers forbid it.
fn choose(wanted: settings::Reactor) -> Interface {
    let interface = match wanted {
        settings::Reactor::IoUring => Interface::IoUring,
        settings::Reactor::Epoll => Interface::Epoll,
        settings::Reactor::Auto => match reactor::probe() {
            Ok(()) => Interface::IoUring,
            Err(error) => {
                tracing::info!("io_uring cannot be used here: {error}");
                Interface::Epoll
            }
        },
    };
    tracing::info!("reactor: {interface:?}");
    interface
}

impl Workers {
    /// Waits until all have ended (`ToWorker::Stop`).
    pub fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// The mailbox's token; connections have even (clients) and odd (server connections) ones below it.
const MAILBOX: usize = usize::MAX >> 1;

/// A connection of either kind, by its place in the worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    Client(usize),
    Server(usize),
}

impl Owner {
    fn token(self) -> usize {
        match self {
            Owner::Client(index) => index << 1,
            Owner::Server(index) => index << 1 | 1,
        }
    }

    fn of(token: usize) -> Owner {
        if token & 1 == 0 {
            Owner::Client(token >> 1)
        } else {
            Owner::Server(token >> 1)
        }
    }
}

fn connection_of<'a>(
    clients: &'a mut Slab<Client>,
    servers: &'a mut Slab<Server>,
    owner: Owner,
) -> Option<&'a mut Connection> {
    match owner {
        Owner::Client(index) => clients.get_mut(index).map(|client| &mut client.connection),
        Owner::Server(index) => servers.get_mut(index).map(|server| &mut server.connection),
    }
}

/// Whether the loop goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Running {
    Yes,
    /// Idle clients are closed as they become idle.
    ClosingIdleClients,
    Stopped,
}

pub struct Worker {
    index: usize,
    shared: Arc<Shared>,
    reactor: Reactor,
    mailbox: Mailbox,
    clients: Slab<Client>,
    servers: Slab<Server>,
    /// By pool id; made at first use.
    pools: Vec<Option<Box<LocalPool>>>,
    by_pid: FxHashMap<i32, u32>,
    slots: Slots,
    outbox: Outbox,
    outgoing: Outgoing,
    aside: Aside,
    /// Tokens that are to be received from in the next batch, whether or not the kernel says so again.
    again: Vec<usize>,
    /// Clients that have got a lease while their message was waiting.
    resumed: Vec<usize>,
    /// Connections to be closed after the batch.
    leaving: Vec<Owner>,
    spare_inboxes: SpareInboxes,
    /// When clients that wait for a connection of this worker's may have one of another's.
    looks_again_at: Option<Time>,
    now: Time,
    swept_at: Time,
    limits: Limits,
    running: Running,
    random: rand::rngs::SmallRng,
    servers_made: u64,
    servers_taken_in: u32,
    clients_swept_at: Time,
    listening_swept_at: Time,
    /// Requests for the shared listeners.
    tickets: u64,
    /// Bytes of notifications that have been said since they were last sent.
    said: usize,
}

/// Whether clients may use the simple query protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SimpleQuery {
    Allowed,
    Refused,
}

/// What a worker itself needs of the configuration.
struct Limits {
    simple_query: SimpleQuery,
    packet_max: usize,
    handover_after: std::time::Duration,
    /// Bytes of notifications that may wait for a client.
    listen_queue_max: usize,
    log_disconnections: bool,
    log_pooler_errors: bool,
}

impl Limits {
    fn of(config: &settings::Config) -> Limits {
        Limits {
            simple_query: if config.general.disable_pqexec {
                SimpleQuery::Refused
            } else {
                SimpleQuery::Allowed
            },
            packet_max: config.general.max_packet_size as usize,
            handover_after: config.general.handover_after,
            listen_queue_max: usize::try_from(config.general.listen_queue_size.0)
                .unwrap_or(usize::MAX),
            log_disconnections: config.general.log_disconnections,
            log_pooler_errors: config.general.log_pooler_errors,
        }
    }
}

impl Worker {
    fn new(shared: Arc<Shared>, index: usize, interface: Interface) -> io::Result<Worker> {
        let reactor = Reactor::new(interface)?;
        let mailbox = Mailbox::new(reactor.poll().registry(), mio::Token(MAILBOX))?;
        let limits = Limits::of(&shared.config.load());
        Ok(Worker {
            index,
            reactor,
            mailbox,
            clients: Slab::new(),
            servers: Slab::new(),
            pools: Vec::new(),
            by_pid: FxHashMap::default(),
            slots: Slots::new(reactor::BATCH),
            outbox: Outbox::default(),
            outgoing: Outgoing::default(),
            aside: Aside::default(),
            again: Vec::new(),
            resumed: Vec::new(),
            leaving: Vec::new(),
            spare_inboxes: SpareInboxes::default(),
            looks_again_at: None,
            now: shared.clock.now(),
            swept_at: Time(0),
            limits,
            running: Running::Yes,
            random: rand::rngs::SmallRng::from_os_rng(),
            servers_made: 0,
            servers_taken_in: 0,
            clients_swept_at: Time(0),
            listening_swept_at: Time(0),
            tickets: 0,
            said: 0,
            shared,
        })
    }

    fn connection(&mut self, owner: Owner) -> Option<&mut Connection> {
        connection_of(&mut self.clients, &mut self.servers, owner)
    }

    /// This worker's part of a pool.
    fn pool(&mut self, id: PoolId) -> Option<&mut LocalPool> {
        self.pools.get_mut(id.0 as usize)?.as_deref_mut()
    }

    fn open_pool(&mut self, shared: &Arc<crate::shared::Pool>) {
        let number = shared.id.0 as usize;
        if self.pools.len() <= number {
            self.pools.resize_with(number + 1, || None);
        }
        if self.pools[number].is_none() {
            self.pools[number] = Some(Box::new(LocalPool::new(
                Arc::clone(shared),
                self.shared.statement_key,
            )));
        }
    }

    /// A number of its own for each server connection of the process.
    fn next_server_id(&mut self) -> u64 {
        self.servers_made += 1;
        self.servers_made * pooling::cancel::WORKERS_MAX as u64 + self.index as u64
    }

    fn draw(&mut self) -> f64 {
        self.random.random()
    }
}
