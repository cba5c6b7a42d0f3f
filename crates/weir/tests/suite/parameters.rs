//! What a client has set at its start or later is its own, although it shares a server connection.

use crate::stage::{Party, Stage, USER, value};
use testkit::Postgres;
use testkit::script::Client;
use wire::startup::PROTOCOL_3_0;
use wire::write;

scenarios! { reactors: startup_parameters, reported_ones_are_tracked, unknown_ones_are_refused_by_the_server, changes_within_a_transaction }
mod majors {
    scenarios! { majors: startup_parameters, reported_ones_are_tracked, unknown_ones_are_refused_by_the_server }
}

fn client_with(stage: &Stage, own: &[(&str, &str)]) -> Client {
    let mut parameters = vec![("user", USER), ("database", Postgres::DATABASE)];
    parameters.extend_from_slice(own);
    Client::login_with(stage.port(), PROTOCOL_3_0, &parameters)
}

#[track_caller]
fn sees(client: &mut Client, expected: &[(&str, &str)]) {
    for (name, expected) in expected {
        assert_eq!(value(client, &format!("SHOW {name}")), *expected, "{name}");
    }
}

fn startup_parameters(party: Party) {
    let stage = party.start();
    let first = [
        ("application_name", "first"),
        ("TimeZone", "Europe/Berlin"),
        ("DateStyle", "German"),
        ("search_path", "pg_catalog"),
        ("statement_timeout", "1234"),
    ];
    let mut one = client_with(&stage, &first);
    let mut two = client_with(
        &stage,
        &[
            ("application_name", "it's"),
            (
                "options",
                "-c statement_timeout=5s -c search_path=information_schema",
            ),
        ],
    );
    let mut three = client_with(&stage, &[]);
    for _ in 0..3 {
        sees(
            &mut one,
            &[
                ("application_name", "first"),
                ("TimeZone", "Europe/Berlin"),
                ("DateStyle", "German, DMY"),
                ("search_path", "pg_catalog"),
                ("statement_timeout", "1234ms"),
            ],
        );
        sees(
            &mut two,
            &[
                ("application_name", "it's"),
                ("statement_timeout", "5s"),
                ("search_path", "information_schema"),
                ("DateStyle", "ISO, MDY"),
            ],
        );
        sees(
            &mut three,
            &[
                ("application_name", ""),
                ("search_path", "\"$user\", public"),
                ("statement_timeout", "0"),
                ("DateStyle", "ISO, MDY"),
            ],
        );
        assert_ne!(value(&mut three, "SHOW TimeZone"), "Europe/Berlin");
    }
    assert_eq!(
        value(
            &mut one,
            "SELECT count(DISTINCT pid) FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ),
        "1"
    );
}

fn reported_ones_are_tracked(party: Party) {
    let stage = party.start();
    let (mut one, mut two) = (
        stage.client(),
        client_with(&stage, &[("TimeZone", "America/Lima")]),
    );
    assert_eq!(
        one.query("SET TimeZone = 'Asia/Tokyo'"),
        "C(SET) S(TimeZone=Asia/Tokyo) Z(I)"
    );
    assert_eq!(
        one.query("SET application_name = 'mine'"),
        "C(SET) S(application_name=mine) Z(I)"
    );
    for _ in 0..3 {
        sees(
            &mut two,
            &[("TimeZone", "America/Lima"), ("application_name", "")],
        );
        sees(
            &mut one,
            &[("TimeZone", "Asia/Tokyo"), ("application_name", "mine")],
        );
    }
    // The replay between clients is not reported to anybody.
    assert_eq!(two.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    assert_eq!(one.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
}

fn changes_within_a_transaction(party: Party) {
    let stage = party.start();
    let (mut one, mut two) = (stage.client(), stage.client());
    one.query("SET TimeZone = 'Asia/Tokyo'");
    one.query("BEGIN");
    one.query("SET TimeZone = 'America/Lima'");
    one.query("SET LOCAL application_name = 'for now'");
    sees(
        &mut one,
        &[
            ("TimeZone", "America/Lima"),
            ("application_name", "for now"),
        ],
    );
    one.query("ROLLBACK");
    assert_ne!(value(&mut two, "SHOW TimeZone"), "Asia/Tokyo");
    sees(
        &mut one,
        &[("TimeZone", "Asia/Tokyo"), ("application_name", "")],
    );
    one.query("RESET TimeZone");
    assert_eq!(
        value(&mut one, "SHOW TimeZone"),
        value(&mut two, "SHOW TimeZone")
    );
}

fn unknown_ones_are_refused_by_the_server(party: Party) {
    let stage = party.start();
    let mut served = stage.client();
    for (name, bad, sqlstate) in [
        ("no_such_parameter", "x", "E(42704)"),
        ("TimeZone", "Nowhere/Land", "E(22023)"),
    ] {
        let mut client = Client::connect(stage.port());
        let parameters = [
            ("user", USER),
            ("database", Postgres::DATABASE),
            (name, bad),
        ];
        let bytes = parameters.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        client.send(|out| {
            write::startup(out, PROTOCOL_3_0, bytes);
            write::query(out, b"SELECT 1");
        });
        client.receive_until(sqlstate);
        client.expect_closed();
        assert_eq!(served.query("SELECT 1"), "T D(1) C(SELECT 1) Z(I)");
    }
    sees(&mut served, &[("DateStyle", "ISO, MDY")]);
}
