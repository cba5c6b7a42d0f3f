//! Many clients that do everything at once, leave at the worst moment and cancel: each gets exactly its own answers, and in the end nothing is
//! left behind.

use crate::stage::{Party, USER, execute, parse};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::script::Client;
use testkit::wait;
use wire::frontend::Target;
use wire::write;

scenarios! { reactors: everybody_gets_their_own_answers }

const CLIENTS: u64 = 24;
const POOL: usize = 4;
const TIME: Duration = Duration::from_secs(4);

fn everybody_gets_their_own_answers(party: Party) {
    let database = party.own_database("chaos");
    let stage = party.start_with(|ini| {
        party
            .weir_only(ini, "worker_threads", 4)
            .set("default_pool_size", POOL)
            .set("max_prepared_statements", 8)
    });
    let marks = AtomicU32::new(0);
    let (port, until) = (stage.port(), Instant::now() + TIME);
    let most = thread::scope(|scope| {
        let actors: Vec<_> = (1..=CLIENTS)
            .map(|seed| {
                let (marks, database) = (&marks, &database);
                scope.spawn(move || {
                    let mut actor = Actor::new(seed, port, database, marks);
                    while Instant::now() < until {
                        actor.act();
                    }
                })
            })
            .collect();
        let mut most = 0;
        while actors.iter().any(|actor| !actor.is_finished()) {
            most = most.max(stage.postgres.connections(&database));
            thread::yield_now();
        }
        most
    });
    assert!(
        marks.load(Ordering::Relaxed) > CLIENTS as u32,
        "nothing happened"
    );
    // A connection that had to be given up may still be ending when the next one is there.
    assert!(most <= 2 * POOL, "{most} server connections");
    stage.until_pool(&database, "cl_active", 0);
    stage.until_pool(&database, "sv_active", 0);
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}' AND state <> 'idle'"
    );
    wait::until("nothing is left open", || stage.server_says(&busy) == "0");
    wait::until("both count the same", || {
        let counted = stage
            .show("SERVERS")
            .having("database", &database)
            .rows
            .len();
        counted <= POOL && counted == stage.postgres.connections(&database)
    });
}

/// One client after the other, driven by a seed.
struct Actor<'a> {
    state: u64,
    port: u16,
    database: &'a str,
    marks: &'a AtomicU32,
    client: Client,
    /// The text that the client's prepared statement gives.
    prepared: Option<u32>,
}

impl<'a> Actor<'a> {
    fn new(seed: u64, port: u16, database: &'a str, marks: &'a AtomicU32) -> Self {
        Actor {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            port,
            database,
            marks,
            client: Client::login(port, USER, database),
            prepared: None,
        }
    }

    /// (xorshift64)
    fn draw(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    /// A number that nobody else asks for.
    fn mark(&self) -> u32 {
        self.marks.fetch_add(1, Ordering::Relaxed)
    }

    fn act(&mut self) {
        match self.draw(12) {
            0 | 1 => self.query(),
            2 => self.transaction(),
            3 => self.pipeline(),
            4 | 5 => self.prepared_statement(),
            6 => self.cancelled(),
            7 => self.copy(),
            8 => self.leave_in_a_query(),
            9 => self.leave_in_a_transaction(),
            10 => self.leave_in_a_copy(),
            _ => self.leave_behind_unread_rows(),
        }
    }

    fn query(&mut self) {
        let mark = self.mark();
        let answer = self.client.query(&format!("SELECT {mark}"));
        assert_eq!(answer, format!("T D({mark}) C(SELECT 1) Z(I)"));
    }

    fn transaction(&mut self) {
        let mark = self.mark();
        assert_eq!(self.client.query("BEGIN"), "C(BEGIN) Z(T)");
        self.client
            .query(&format!("SET LOCAL weir.mark = '{mark}'"));
        if self.draw(3) == 0 {
            assert_eq!(self.client.query("SELECT 1/0"), "E(22012) Z(E)");
        } else {
            let answer = self.client.query("SHOW weir.mark");
            assert_eq!(answer, format!("T D({mark}) C(SHOW) Z(T)"));
        }
        self.client.query("ROLLBACK");
    }

    fn pipeline(&mut self) {
        let marks = [self.mark(), self.mark(), self.mark()];
        self.client.send(|out| {
            for mark in marks {
                parse(out, "", &format!("SELECT {mark}"));
                execute(out, "");
                parse(out, "", "nonsense");
                write::sync(out);
            }
        });
        for mark in marks {
            self.client
                .expect(&format!("1 2 D({mark}) C(SELECT 1) E(42601) Z(I)"));
        }
    }

    fn prepared_statement(&mut self) {
        let (new, old) = (self.mark(), self.prepared);
        let renew = old.is_none() || self.draw(3) == 0;
        self.client.send(|out| {
            if renew {
                write::close(out, Target::Statement, b"s");
                parse(out, "s", &format!("SELECT {new}"));
            }
            execute(out, "s");
            write::sync(out);
        });
        let mark = if renew { new } else { old.unwrap_or(new) };
        let before = if renew { "3 1 " } else { "" };
        self.client
            .expect(&format!("{before}2 D({mark}) C(SELECT 1) Z(I)"));
        self.prepared = Some(mark);
    }

    /// The request may come before, during or after the query.
    fn cancelled(&mut self) {
        let pause = self.draw(20);
        self.client
            .send(|out| write::query(out, b"SELECT pg_sleep(0.01)"));
        dawdle(pause);
        Client::cancel(self.port, self.client.key());
        let messages = self.client.receive_until("Z(I)");
        let tags: String = messages
            .iter()
            .map(|message| char::from(message.tag))
            .collect();
        assert!(["TDCZ", "TEZ", "EZ"].contains(&&tags[..]), "{tags}");
    }

    fn copy(&mut self) {
        let mark = self.mark();
        let answer = self
            .client
            .query(&format!("COPY (SELECT {mark}) TO STDOUT"));
        assert_eq!(answer, "H d c C(COPY 1) Z(I)");
        self.client
            .query("CREATE TEMP TABLE t (i int); DROP TABLE t");
    }

    fn leave_in_a_query(&mut self) {
        self.client
            .send(|out| write::query(out, b"SELECT pg_sleep(30)"));
        let pause = self.draw(10);
        dawdle(pause);
        self.return_anew();
    }

    fn leave_in_a_transaction(&mut self) {
        self.client.query("BEGIN");
        if self.draw(2) == 0 {
            self.client.query("nonsense");
        }
        self.return_anew();
    }

    fn leave_in_a_copy(&mut self) {
        self.client.send(|out| {
            parse(out, "", "COPY pg_temp.nowhere FROM STDIN");
            execute(out, "");
            write::flush(out);
            write::copy_data(out, b"1\n");
        });
        self.return_anew();
    }

    fn leave_behind_unread_rows(&mut self) {
        self.client.send(|out| {
            write::query(
                out,
                b"SELECT repeat('x', 1000) FROM generate_series(1, 20000)",
            );
        });
        if self.draw(2) == 0 {
            self.client.receive();
        }
        self.return_anew();
    }

    /// Vanishes, with or without a word, and comes back as somebody else.
    fn return_anew(&mut self) {
        let next = Client::login(self.port, USER, self.database);
        let gone = std::mem::replace(&mut self.client, next);
        self.prepared = None;
        match self.draw(3) {
            0 => gone.into_end().reset(),
            1 => gone.finish(),
            _ => {
                let mut end = gone.into_end();
                // Within a COPY or behind a query it is read later, or never.
                end.send(write::terminate);
            }
        }
    }
}

/// Lets a random while go by: nothing is waited for, the moment is what varies.
fn dawdle(millis: u64) {
    thread::park_timeout(Duration::from_millis(millis));
}
