//! The dialler, cancel requests and the upkeep of pools, seen from the workers' mailboxes.

use super::*;
use crate::control::maintenance;
use crate::shared::{CancelHold, CancelTarget, NewServer};
use crate::worker::ServerKey;
use pooling::ledger::PoolId;
use std::sync::atomic::Ordering;
use tokio::join;

/// What a worker gets, reduced to what matters here.
#[derive(Debug)]
enum Mail {
    Server(Box<NewServer>),
    Failed(Arc<DialError>),
    PoolChanged,
    CancelDone,
}

impl std::fmt::Debug for NewServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "server connection to {:?}", self.address)
    }
}

impl Rig {
    fn dialler(&self) -> Dialler {
        Dialler::new(Arc::clone(&self.shared), Arc::clone(&self.credentials))
    }

    fn ask(&self, dialler: &Dialler, worker: usize) {
        let slot = self.shared.try_slot(self.pool.id).ok().unwrap();
        dialler.handle(Arc::clone(&self.pool), worker, slot);
    }

    fn open(&self) -> u32 {
        self.shared.ledger().open_in_pool(self.pool.id)
    }

    /// Waits for `count` messages to any worker.
    async fn wait_for_any(&self, count: usize) -> Vec<(usize, Mail)> {
        let mut all = Vec::new();
        while all.len() < count {
            for worker in 0..WORKERS {
                all.extend(
                    self.mail(worker)
                        .into_iter()
                        .map(|message| (worker, mail(message, self.pool.id))),
                );
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(all.len(), count, "{all:?}");
        all
    }

    /// Waits for `count` messages to a worker.
    async fn wait_for(&self, worker: usize, count: usize) -> Vec<Mail> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(
                self.mail(worker)
                    .into_iter()
                    .map(|message| mail(message, self.pool.id)),
            );
            tokio::task::yield_now().await;
        }
        assert_eq!(all.len(), count, "{all:?}");
        all
    }
}

fn mail(message: ToWorker, id: PoolId) -> Mail {
    match message {
        ToWorker::Server(server) => Mail::Server(server),
        ToWorker::DialFailed { pool, error } if pool == id => Mail::Failed(error),
        ToWorker::PoolChanged(pool) if pool == id => Mail::PoolChanged,
        ToWorker::CancelDone { .. } => Mail::CancelDone,
        _ => panic!("nothing else is sent by dialling"),
    }
}

/// A port that refuses until `Fake` listens on it.
async fn refusing_port() -> u16 {
    Fake::listen().await.port()
}

#[tokio::test]
async fn a_new_connection_goes_to_the_worker_that_asked() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "x");
    let dialler = rig.dialler();
    rig.pool.generation.store(3, Ordering::Relaxed);
    let dialled = rig.pool.dialled.notified();
    rig.ask(&dialler, 1);
    let mut peer = fake.accept().await;
    rig.pool.generation.store(4, Ordering::Relaxed);
    peer.send(welcome).await;
    dialled.await;
    let mut mail = rig.wait_for(1, 1).await;
    let Some(Mail::Server(server)) = mail.pop() else {
        panic!("{mail:?}")
    };
    assert_eq!((server.pid, server.generation, rig.open()), (42, 3, 1));
    assert!(Arc::ptr_eq(
        &server.parameters,
        &rig.pool.welcome.load_full().unwrap()
    ));
    assert!(rig.mail(0).is_empty() && rig.pool.last_error.load().is_none());
    drop(server);
    assert_eq!(rig.open(), 0);
    peer.closed().await;
}

#[tokio::test]
async fn several_are_dialled_at_a_time_and_no_more() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "server_connect_concurrency = 3", "x");
    let dialler = rig.dialler();
    (0..8).for_each(|_| rig.ask(&dialler, 0));
    let mut held = vec![
        fake.accept().await,
        fake.accept().await,
        fake.accept().await,
    ];
    for left in (0..8).rev() {
        let mut next = held.remove(0);
        // All under way are held here: a fourth would be in the backlog by now, since it would have been launched with them.
        next.send(welcome).await;
        rig.wait_for(0, 1).await;
        if left >= 3 {
            held.push(fake.accept().await);
        }
    }
    assert!(held.is_empty());
}

#[tokio::test]
async fn while_a_server_fails_one_prober_dials_and_its_success_calls_the_others() {
    let port = refusing_port().await;
    let rig = Rig::new(
        &format!("host=127.0.0.1 port={port}"),
        "server_login_retry = 1",
        "x",
    );
    let dialler = rig.dialler();
    rig.pool.clients.try_add(0);
    (0..5).for_each(|n| rig.ask(&dialler, n % 2));
    let told = rig.wait_for_any(4).await;
    assert!(
        told.iter()
            .all(|(_, mail)| matches!(mail, Mail::Failed(error) if !error.lasting))
    );
    assert_eq!(rig.open(), 1, "the prober keeps its place");
    assert!(rig.pool.last_error.load().is_some());
    rig.ask(&dialler, 1);
    assert!(matches!(rig.wait_for(1, 1).await[..], [Mail::Failed(_)]));

    let fake = Fake {
        listener: TcpListener::bind(("127.0.0.1", port)).await.unwrap(),
    };
    let mut peer = fake.accept().await;
    peer.send(welcome).await;
    let told = rig.wait_for_any(3).await;
    let servers = told
        .iter()
        .filter(|(_, mail)| matches!(mail, Mail::Server(_)))
        .count();
    let called = |worker| {
        told.iter()
            .any(|(to, mail)| *to == worker && matches!(mail, Mail::PoolChanged))
    };
    assert!(servers == 1 && called(0) && called(1), "{told:?}");
    assert!(rig.pool.last_error.load().is_none());
    let more = tokio::time::timeout(Duration::from_millis(300), fake.listener.accept()).await;
    assert!(more.is_err(), "nobody asked for a second connection");
}

#[tokio::test]
async fn the_prober_ends_when_no_client_is_left_to_wait() {
    let port = refusing_port().await;
    let rig = Rig::new(&format!("host=127.0.0.1 port={port}"), "", "x");
    let dialler = rig.dialler();
    rig.pool.clients.try_add(0);
    rig.ask(&dialler, 0);
    while rig.pool.last_error.load().is_none() {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.open(), 1);
    rig.pool.clients.subtract();
    assert!(matches!(rig.wait_for(0, 1).await[..], [Mail::Failed(_)]));
    assert_eq!(rig.open(), 0);
}

#[tokio::test]
async fn a_lasting_refusal_is_told_to_all_and_not_repeated_until_something_changes() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "server_connect_concurrency = 1", "wrong");
    let dialler = rig.dialler();
    (0..3).for_each(|_| rig.ask(&dialler, 0));
    let mut peer = fake.accept().await;
    peer.send(|out| error(out, SqlState::INVALID_PASSWORD, "no"))
        .await;
    let told = rig.wait_for(0, 3).await;
    assert!(
        told.iter().all(
            |mail| matches!(mail, Mail::Failed(error) if error.lasting && error.message == "no")
        )
    );
    assert!(matches!(rig.wait_for(1, 1).await[..], [Mail::Failed(_)]));
    assert_eq!(rig.open(), 0);

    // The remembered answer comes without a connection, and to whoever waits for an outcome too.
    let (known, dialled) = (
        rig.pool.last_error.load_full().unwrap(),
        rig.pool.dialled.notified(),
    );
    rig.ask(&dialler, 1);
    dialled.await;
    assert!(!Arc::ptr_eq(
        &known,
        &rig.pool.last_error.load_full().unwrap()
    ));
    assert!(
        matches!(&rig.wait_for(1, 1).await[..], [Mail::Failed(error)] if error.message == "no")
    );

    rig.credentials.users.store(Arc::new(users("right")));
    rig.ask(&dialler, 1);
    let mut peer = fake.accept().await;
    peer.send(write::authentication_cleartext).await;
    assert_eq!(
        peer.password().await,
        "right",
        "the second connection is the one with the new secret"
    );
    peer.send(welcome).await;
    assert!(matches!(rig.wait_for(1, 1).await[..], [Mail::Server(_)]));
}

#[tokio::test]
async fn nothing_is_dialled_for_a_paused_or_disabled_database() {
    let rig = Rig::new("host=127.0.0.1 port=1", "", "x");
    let dialler = rig.dialler();
    for gate in [&rig.pool.state.paused, &rig.pool.state.disabled] {
        gate.store(true, Ordering::Relaxed);
        rig.ask(&dialler, 0);
        let mail = rig.wait_for(0, 1).await;
        assert!(
            matches!(&mail[..], [Mail::Failed(error)] if error.sqlstate == SqlState::CANNOT_CONNECT_NOW && !error.lasting)
        );
        gate.store(false, Ordering::Relaxed);
    }
    assert_eq!(rig.open(), 0);
}

#[tokio::test]
async fn requests_are_answered_when_the_dialler_ends() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "x");
    let dialler = rig.dialler();
    rig.ask(&dialler, 0);
    let _peer = fake.accept().await;
    drop(dialler);
    assert!(matches!(rig.wait_for(0, 1).await[..], [Mail::Failed(_)]));
    assert_eq!(rig.open(), 0);
}

fn target(rig: &Rig, port: u16, key: &[u8]) -> CancelTarget {
    let hold = CancelHold {
        shared: Arc::clone(&rig.shared),
        worker: 0,
        server: ServerKey {
            index: 1,
            serial: 2,
        },
        delivery: crate::shared::Delivery::Unknown,
    };
    CancelTarget {
        address: Arc::new(Address::Tcp(([127, 0, 0, 1], port).into())),
        pid: 42,
        key: key.into(),
        hold,
    }
}

#[tokio::test]
async fn a_cancel_request_holds_the_server_until_it_has_been_taken() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "", "x");
    let key = [5; 32];
    join!(
        cancel(&rig.shared, target(&rig, fake.port(), &key)),
        async {
            let peer = fake.accept().await;
            assert_eq!(peer.packet(), StartupPacket::Cancel { pid: 42, key: &key });
            assert!(
                rig.mail(0).is_empty(),
                "not before the end of the connection"
            );
            drop(peer);
            assert!(matches!(rig.wait_for(0, 1).await[..], [Mail::CancelDone]));
        }
    );
}

#[tokio::test]
async fn cancel_requests_are_bounded() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "cancel_connections_max = 1", "x");
    let both = async {
        join!(
            cancel(&rig.shared, target(&rig, fake.port(), &[1; 4])),
            cancel(&rig.shared, target(&rig, fake.port(), &[2; 4])),
        )
    };
    join!(both, async {
        let first = fake.accept().await;
        let second = tokio::time::timeout(Duration::from_millis(100), fake.listener.accept()).await;
        assert!(second.is_err(), "the limit is one");
        drop(first);
        drop(fake.accept().await);
        rig.wait_for(0, 2).await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_cancel_request_is_given_up_in_time() {
    let fake = Fake::listen().await;
    let rig = Rig::new(&fake.keys(), "cancel_wait_timeout = 4", "x");
    let start = Instant::now();
    let ((), _peer) = join!(
        cancel(&rig.shared, target(&rig, fake.port(), &[1; 4])),
        fake.accept()
    );
    assert!(start.elapsed() >= Duration::from_secs(4));
    assert!(matches!(rig.mail(0)[..], [ToWorker::CancelDone { .. }]));
}

#[tokio::test]
async fn pools_are_kept_warm_for_forced_users_and_for_clients() {
    let mut rig = Rig::new("host=127.0.0.1 port=1 min_pool_size=3", "", "x");
    let upkeep = maintenance::spawn(Arc::clone(&rig.shared));
    let asked = tokio::time::timeout(Duration::from_millis(50), rig.control.recv()).await;
    assert!(asked.is_err(), "no client, no forced user");
    rig.pool.clients.try_add(0);
    let mut workers = Vec::new();
    let mut slots = Vec::new();
    for _ in 0..3 {
        let Some(ToControl::Dial { pool, worker, slot }) = rig.control.recv().await else {
            panic!("a request")
        };
        assert_eq!(pool.id, rig.pool.id);
        workers.push(worker);
        slots.push(slot);
    }
    assert_eq!((workers, rig.open()), (vec![0, 1, 0], 3));
    upkeep.abort();

    let mut forced = Rig::new("host=127.0.0.1 port=1 min_pool_size=1 user=owner", "", "x");
    let upkeep = maintenance::spawn(Arc::clone(&forced.shared));
    assert!(matches!(
        forced.control.recv().await,
        Some(ToControl::Dial { .. })
    ));
    upkeep.abort();
}
