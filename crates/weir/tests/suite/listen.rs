//! LISTEN and NOTIFY in transaction mode: clients listen through one server connection of the pool's, and get what they would get on a connection of
//! their own.

use crate::stage::{Party, Stage, USER, error, execute, parse, value};
use std::time::Duration;
use testkit::Postgres;
use testkit::script::{Client, Message};
use testkit::wait;
use wire::backend::NotificationResponse;
use wire::write;

scenarios! { reactors: many_listeners_on_two_server_connections, listening_is_transactional, savepoints, unlisten, discard_all,
payloads_keep_their_order, own_notifications_come_before_the_answer, a_notification_waits_for_the_end_of_a_transaction, prepared_listen,
nothing_is_lost_while_channels_change_hands, channels_that_change_hands_keep_their_order, a_lost_listener_is_restored, nobody_is_deaf_after_many_losses, slow_listeners_are_let_go, listeners_that_vanish_are_forgotten,
a_pool_without_a_place_pins, pause_and_resume, own_channels_are_shown, other_encodings_pin }
mod majors {
    scenarios! { majors: listening_is_transactional, own_notifications_come_before_the_answer, nothing_is_lost_while_channels_change_hands, own_channels_are_shown }
}

/// A shared listener, in pg_stat_activity.
const LISTENER: &str = "application_name = 'weir listener'";

fn two(party: Party) -> (Stage, Client, Client) {
    let stage = party.start_with(|ini| ini.set("default_pool_size", 3));
    let (one, two) = (stage.client(), stage.client());
    (stage, one, two)
}

#[track_caller]
fn run(client: &mut Client, sql: &str) -> Vec<Message> {
    client.send(|out| write::query(out, sql.as_bytes()));
    let messages = client.receive_until("Z");
    let failed = messages.iter().find(|message| message.tag == b'E');
    assert!(failed.is_none(), "{sql}: {failed:?}");
    messages
}

/// Channel and payload.
fn told(message: &Message) -> Option<(String, String)> {
    let it = NotificationResponse::parse(&message.body).ok()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (message.tag == b'A').then(|| (text(it.channel), text(it.payload)))
}

#[track_caller]
fn payload(client: &mut Client) -> String {
    let message = client.receive();
    told(&message)
        .unwrap_or_else(|| panic!("not a notification: {message}\n{}", client.transcript()))
        .1
}

/// Waits until clients listen, and nobody keeps a server connection.
#[track_caller]
fn until_shared(stage: &Stage, listeners: usize) {
    let console = stage.console();
    wait::until("the clients listen through the shared listener", || {
        console.ask("SHOW LISTENERS").rows.len() == listeners
    });
    stage.until_pool(Postgres::DATABASE, "sv_active", 0);
}

fn listening(party: Party, channel: &str) -> (Stage, Client, Client, String) {
    let (stage, mut one, two) = two(party);
    let channel = party.own_name(channel);
    run(&mut one, &format!("LISTEN {channel}"));
    until_shared(&stage, 1);
    (stage, one, two, channel)
}

fn many_listeners_on_two_server_connections(party: Party) {
    const LISTENERS: usize = 1000;
    for threads in [1, 2] {
        let stage = party.start_with(|ini| {
            let ini = ini.set("default_pool_size", 2);
            let ini = ini.set("max_client_conn", LISTENERS + 10);
            ini.set("worker_threads", threads)
        });
        let common = party.own_name("common");
        let mut clients: Vec<Client> = (0..LISTENERS).map(|_| stage.client()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            run(
                client,
                &format!("LISTEN {common}; LISTEN {common}_{number}"),
            );
        }
        until_shared(&stage, LISTENERS);
        let mut notifier = stage.client();
        run(&mut notifier, &format!("NOTIFY {common}, 'all'"));
        for number in 0..LISTENERS {
            run(
                &mut notifier,
                &format!("NOTIFY {common}_{number}, '{number}'"),
            );
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(payload(client), "all");
            assert_eq!(payload(client), number.to_string());
        }
    }
}

fn listening_is_transactional(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "transactional");
    for sql in ["BEGIN", &format!("LISTEN {channel}_b"), "ROLLBACK"] {
        run(&mut one, sql);
    }
    for sql in ["BEGIN", &format!("UNLISTEN {channel}"), "ROLLBACK"] {
        run(&mut one, sql);
    }
    run(&mut one, &format!("BEGIN; LISTEN {channel}_c; COMMIT"));
    until_shared(&stage, 1);
    run(&mut two, &format!("NOTIFY {channel}_b, 'b'"));
    run(&mut two, &format!("NOTIFY {channel}, 'a'"));
    run(&mut two, &format!("NOTIFY {channel}_c, 'c'"));
    assert_eq!(payload(&mut one), "a");
    assert_eq!(payload(&mut one), "c");
}

fn savepoints(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "savepoints");
    for sql in [
        "BEGIN",
        "SAVEPOINT s",
        &format!("UNLISTEN {channel}"),
        &format!("LISTEN {channel}_b"),
        "ROLLBACK TO s",
        &format!("LISTEN {channel}_c"),
        "COMMIT",
    ] {
        run(&mut one, sql);
    }
    until_shared(&stage, 1);
    for (suffix, told) in [("_b", "b"), ("", "a"), ("_c", "c")] {
        run(&mut two, &format!("NOTIFY {channel}{suffix}, '{told}'"));
    }
    assert_eq!(payload(&mut one), "a");
    assert_eq!(payload(&mut one), "c");
}

fn unlisten(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "unlisten");
    run(&mut one, &format!("LISTEN {channel}_b"));
    run(&mut one, &format!("UNLISTEN {channel}"));
    run(&mut two, &format!("NOTIFY {channel}, 'a'"));
    run(&mut two, &format!("NOTIFY {channel}_b, 'b'"));
    assert_eq!(payload(&mut one), "b");
    run(&mut one, "UNLISTEN *");
    until_shared(&stage, 0);
    run(&mut two, &format!("NOTIFY {channel}_b, 'b'"));
    assert_eq!(value(&mut one, "SELECT 1"), "1");
    run(&mut one, &format!("LISTEN {channel}_b"));
    run(&mut two, &format!("NOTIFY {channel}_b, 'again'"));
    assert_eq!(payload(&mut one), "again");
}

fn discard_all(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "discarded");
    run(&mut one, "DISCARD ALL");
    until_shared(&stage, 0);
    run(&mut two, &format!("NOTIFY {channel}, 'a'"));
    assert_eq!(one.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
}

fn payloads_keep_their_order(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "ordered");
    run(&mut one, &format!("LISTEN {channel}_b"));
    let mut three = stage.client();
    for number in 0..200 {
        let (notifier, other) = match number % 2 {
            0 => (&mut two, &channel),
            _ => (&mut three, &format!("{channel}_b")),
        };
        run(
            notifier,
            &format!("BEGIN; NOTIFY {channel}, '{number}'; NOTIFY {other}, 'and {number}'; COMMIT"),
        );
    }
    for number in 0..200 {
        assert_eq!(payload(&mut one), number.to_string());
        assert_eq!(payload(&mut one), format!("and {number}"));
    }
    run(
        &mut two,
        &format!("NOTIFY {channel}, '{}'", "x".repeat(7999)),
    );
    assert_eq!(payload(&mut one).len(), 7999);
}

fn own_notifications_come_before_the_answer(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "own");
    for number in 0..20 {
        let messages = run(&mut one, &format!("NOTIFY {channel}, '{number}'"));
        let tags: String = messages.iter().map(|it| char::from(it.tag)).collect();
        assert_eq!(tags, "CAZ", "{}", one.transcript());
        let own = NotificationResponse::parse(&messages[1].body).expect("a notification");
        assert_eq!(own.pid, one.key().0);
        assert_eq!(own.payload, number.to_string().as_bytes());
    }
    run(&mut one, "BEGIN");
    run(
        &mut one,
        &format!("SELECT pg_notify('{channel}', 'in a transaction')"),
    );
    let messages = run(&mut one, "COMMIT");
    assert_eq!(
        told(&messages[1]).expect("a notification").1,
        "in a transaction"
    );
    until_shared(&stage, 1);
    run(&mut two, &format!("NOTIFY {channel}, 'another''s'"));
    assert_eq!(payload(&mut one), "another's");
    run(&mut one, "BEGIN");
    run(&mut two, &format!("NOTIFY {channel}, 'earlier'"));
    until_waiting(&stage);
    run(&mut one, &format!("NOTIFY {channel}, 'later'"));
    let messages = run(&mut one, "COMMIT");
    let payloads: Vec<_> = messages.iter().filter_map(told).map(|it| it.1).collect();
    assert_eq!(payloads, ["earlier", "later"]);
    assert_eq!(one.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
}

/// Something waits for a client.
#[track_caller]
fn until_waiting(stage: &Stage) {
    let console = stage.console();
    wait::until("something waits for the client", || {
        let waits = |bytes: &&str| bytes.parse::<u64>().is_ok_and(|bytes| bytes > 0);
        console
            .ask("SHOW LISTENERS")
            .column("waiting_bytes")
            .iter()
            .any(waits)
    });
}

fn a_notification_waits_for_the_end_of_a_transaction(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "waits");
    run(&mut one, "BEGIN");
    run(&mut two, &format!("NOTIFY {channel}, 'a'"));
    until_waiting(&stage);
    assert_eq!(one.query("SELECT 1"), "T D(1) C(SELECT 1) Z(T)");
    run(&mut one, "COMMIT");
    assert_eq!(payload(&mut one), "a");
    run(&mut two, "BEGIN");
    run(&mut two, &format!("NOTIFY {channel}, 'b'"));
    one.expect_silence(Duration::from_millis(50));
    run(&mut two, "COMMIT");
    assert_eq!(payload(&mut one), "b");
}

fn prepared_listen(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "prepared");
    for round in 0..2 {
        one.send(|out| {
            if round == 0 {
                parse(out, "listen", &format!("LISTEN {channel}_b"));
                parse(out, "unlisten", &format!("UNLISTEN {channel}_b"));
                write::sync(out);
            }
            execute(out, "listen");
            write::sync(out);
        });
        one.receive_until("C(LISTEN)");
        one.receive_until("Z");
        run(&mut two, &format!("NOTIFY {channel}_b, 'b'"));
        assert_eq!(payload(&mut one), "b");
        one.send(|out| {
            execute(out, "unlisten");
            write::sync(out);
        });
        one.expect("2 C(UNLISTEN) Z(I)");
        until_shared(&stage, 1);
        run(&mut two, &format!("NOTIFY {channel}_b, 'b'"));
        run(&mut two, &format!("NOTIFY {channel}, 'a'"));
        assert_eq!(payload(&mut one), "a");
    }
}

/// While a client listens to more and less, and somebody notifies all the time, what it gets is what it asked for: each once, in order.
fn nothing_is_lost_while_channels_change_hands(party: Party) {
    let (stage, mut one, _two, channel) = listening(party, "handed_over");
    let got = std::thread::scope(|scope| {
        let mut two = stage.client();
        let name = channel.clone();
        let notifier = scope.spawn(move || {
            for number in 0..500 {
                run(&mut two, &format!("NOTIFY {name}, '{number}'"));
            }
        });
        let mut got = Vec::new();
        let mut turn = 0;
        while !notifier.is_finished() {
            let sql = match turn % 4 {
                0 => format!("LISTEN {channel}_{turn}"),
                1 => "SELECT 1".to_owned(),
                2 => format!("BEGIN; LISTEN {channel}; COMMIT"),
                _ => format!("UNLISTEN {channel}_{}", turn - 3),
            };
            turn += 1;
            let messages = run(&mut one, &sql);
            got.extend(messages.iter().filter_map(told).map(|it| it.1));
        }
        while got.len() < 500 {
            got.push(payload(&mut one));
        }
        notifier.join().expect("it notifies");
        got
    });
    let all: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    assert_eq!(got, all);
    one.expect_silence(Duration::from_millis(50));
}

/// One channel stays, the other comes and goes; what is notified to both comes as it was sent.
fn channels_that_change_hands_keep_their_order(party: Party) {
    let (stage, mut one, _two, channel) = listening(party, "changing");
    let mut two = stage.client();
    let got = std::thread::scope(|scope| {
        let name = &channel;
        let notifier = scope.spawn(move || {
            for number in 0..500 {
                let both = format!(
                    "BEGIN; NOTIFY {name}, '{number:03} a'; NOTIFY {name}_b, '{number:03} b'; COMMIT"
                );
                run(&mut two, &both);
            }
        });
        let mut got = Vec::new();
        let mut turns = ["LISTEN", "UNLISTEN"].iter().cycle();
        while !notifier.is_finished() {
            let turn = turns.next().expect("endless");
            let messages = run(&mut one, &format!("{turn} {channel}_b"));
            got.extend(messages.iter().filter_map(told).map(|it| it.1));
        }
        while !got.iter().any(|payload| payload == "499 a") {
            got.push(payload(&mut one));
        }
        notifier.join().expect("it notifies");
        got
    });
    assert!(got.is_sorted(), "{got:?}");
    let of_a = got.iter().filter(|payload| payload.ends_with('a'));
    assert_eq!(of_a.count(), 500);
    assert!(got.len() > 500, "nothing came from the other channel");
}

/// Ends the shared listener whose last query named the channel.
fn terminate(channel: &str) -> String {
    format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE {LISTENER} AND query LIKE '%{channel}%'"
    )
}

fn a_lost_listener_is_restored(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "restored");
    assert_eq!(stage.server_says(&terminate(&channel)), "1");
    let notice = one.receive();
    assert_eq!(
        (notice.tag, notice.field(b'C').as_deref()),
        (b'N', Some("01000"))
    );
    assert_eq!(notice.field(b'S').as_deref(), Some("WARNING"));
    run(&mut two, &format!("NOTIFY {channel}, 'a'"));
    assert_eq!(payload(&mut one), "a");
}

/// The shared listener is lost while channels change hands: what is notified then may be missing, but not for ever.
fn nobody_is_deaf_after_many_losses(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "deaf");
    let kill = terminate(&channel);
    let mut names = vec![channel.clone()];
    std::thread::scope(|scope| {
        let (stage, kill) = (&stage, &kill);
        let killer = scope.spawn(move || {
            for _ in 0..20 {
                wait::until("there is a shared listener to be lost", || {
                    stage.server_says(kill) != "0"
                });
            }
        });
        while !killer.is_finished() {
            let name = format!("{channel}_{}", names.len());
            run(&mut one, &format!("LISTEN {name}"));
            run(&mut one, &format!("NOTIFY {name}, 'own'"));
            names.push(name);
        }
        killer.join().expect("it terminates the shared listener");
    });
    for name in names {
        let payload = format!("to {name}");
        wait::until("a notification comes", || {
            run(&mut two, &format!("NOTIFY {name}, '{payload}'"));
            let messages = run(&mut one, "SELECT 1");
            messages.iter().filter_map(told).any(|it| it.1 == payload)
        });
    }
}

fn slow_listeners_are_let_go(party: Party) {
    let stage = party.start_with(|ini| {
        ini.set("default_pool_size", 3)
            .set("listen_queue_size", "100kB")
    });
    let channel = party.own_name("slow");
    let (mut slow, mut quick, mut notifier) = (stage.client(), stage.client(), stage.client());
    for client in [&mut slow, &mut quick] {
        run(client, &format!("LISTEN {channel}"));
    }
    until_shared(&stage, 2);
    let sql = format!(
        "SELECT count(pg_notify('{channel}', n || repeat('x', 7900))) FROM generate_series(1, 50) n"
    );
    let console = stage.console();
    let mut rounds = 0;
    while console.ask("SHOW LISTENERS").rows.len() == 2 {
        run(&mut notifier, &sql);
        for _ in 0..50 {
            assert!(payload(&mut quick).len() > 7900);
        }
        rounds += 1;
        assert!(rounds < 2000, "the slow listener is still there");
    }
    run(&mut notifier, &format!("NOTIFY {channel}, 'still here'"));
    assert_eq!(payload(&mut quick), "still here");
    wait::until("the log says why", || {
        stage.log().contains("listen_queue_size")
    });
    // One that is in a transaction for too long can be told.
    run(&mut quick, "BEGIN");
    run(&mut notifier, &sql);
    let messages = quick.receive_until("E");
    assert_eq!(error(&messages).field(b'C').as_deref(), Some("53400"));
    quick.expect_closed();
}

fn listeners_that_vanish_are_forgotten(party: Party) {
    let (stage, one, mut two, channel) = listening(party, "vanishing");
    let mut three = stage.client();
    three.send(|out| {
        write::query(
            out,
            format!("BEGIN; LISTEN {channel}; SELECT pg_sleep(0.01)").as_bytes(),
        )
    });
    one.into_end().reset();
    drop(three);
    until_shared(&stage, 0);
    let count = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{USER}' AND query LIKE 'UNLISTEN \"{channel}\"%'"
    );
    wait::until("the shared listener unlistens", || {
        stage.server_says(&count) == "1"
    });
    run(&mut two, &format!("NOTIFY {channel}, 'a'"));
    run(
        &mut two,
        &format!("LISTEN {channel}; NOTIFY {channel}, 'b'"),
    );
    run(&mut two, "SELECT 1");
}

fn a_pool_without_a_place_pins(party: Party) {
    let stage = party.start();
    let (mut one, mut two) = (stage.client(), stage.client());
    let channel = party.own_name("no_place");
    run(&mut one, &format!("LISTEN {channel}"));
    let console = stage.console();
    wait::until("it is pinned", || {
        console.ask("SHOW PINS").column("reasons") == ["listen"]
    });
    let messages = run(&mut one, &format!("NOTIFY {channel}, 'own'"));
    assert_eq!(told(&messages[1]).expect("a notification").1, "own");
    run(&mut one, "UNLISTEN *");
    assert_eq!(
        value(&mut two, "SELECT count(*) FROM pg_listening_channels()"),
        "0"
    );
}

fn pause_and_resume(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "paused");
    let console = stage.console();
    console.ask("PAUSE");
    console.ask("RESUME");
    let notice = one.receive();
    assert_eq!(notice.field(b'C').as_deref(), Some("01000"));
    run(&mut two, &format!("NOTIFY {channel}, 'a'"));
    assert_eq!(payload(&mut one), "a");
}

fn own_channels_are_shown(party: Party) {
    let (stage, mut one, mut two, channel) = listening(party, "shown");
    let ask = "SELECT string_agg(c, ',' ORDER BY c) FROM pg_listening_channels() c";
    run(&mut one, &format!("LISTEN {channel}_b"));
    assert_eq!(value(&mut one, ask), format!("{channel},{channel}_b"));
    until_shared(&stage, 1);
    assert_eq!(
        value(&mut two, "SELECT count(*) FROM pg_listening_channels()"),
        "0"
    );
    let shown = stage.console().ask("SHOW LISTENERS");
    assert_eq!(shown.only("channels"), format!("{channel}, {channel}_b"));
}

fn other_encodings_pin(party: Party) {
    let (stage, mut one, _two) = two(party);
    run(&mut one, "SET client_encoding = 'LATIN1'");
    run(&mut one, &format!("LISTEN {}", party.own_name("latin")));
    let console = stage.console();
    wait::until("it is pinned", || {
        console.ask("SHOW PINS").column("reasons") == ["listen"]
    });
}
