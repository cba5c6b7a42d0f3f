//! Conversations that have shown an error once, each shortened to its point. A test that fails prints its conversation in this form.

use crate::script::{Leave, Observe, Script, bind, execute, extended, parse, simple};

/// What went wrong, and the conversation.
pub fn all() -> Vec<(&'static str, Script)> {
    vec![
        (
            "seed 20718: RESET went back to the server's value instead of the client's startup parameter",
            Script::of(1)
                .observe(Observe::AtTheEnd)
                .connect(0, &[("default_transaction_read_only", "on")])
                .say(0, &[simple(&["RESET default_transaction_read_only"])]),
        ),
        (
            "seed 1: SET TO DEFAULT told the client the server's value",
            Script::of(1)
                .connect(2, &[("DateStyle", "SQL, DMY")])
                .say(2, &[simple(&["SET DateStyle = DEFAULT"])]),
        ),
        (
            "seed 22: PREPARE did not know of a Parse of the same name",
            Script::of(1)
                .connect(1, &[])
                .say(1, &[extended(&[parse("s3", "SHOW TimeZone")])])
                .say(1, &[simple(&["PREPARE s3 AS SELECT 95 AS p"])]),
        ),
        (
            "seed 96: RESET ALL, and the next statement before the census: the startup parameter was lost",
            Script::of(1)
                .observe(Observe::AtTheEnd)
                .connect(
                    0,
                    &[("DateStyle", "SQL, DMY"), ("client_encoding", "LATIN1")],
                )
                .say(0, &[simple(&["RESET ALL"])]),
        ),
        (
            "seed 67: a custom parameter that is set to nothing fell back to its startup value",
            Script::of(1)
                .observe(Observe::AtTheEnd)
                .connect(0, &[("options", "-c app.user=option")])
                .say(0, &[simple(&["SELECT set_config('app.user', '', false)"])]),
        ),
        (
            "seed 17: currval gave another client's value",
            Script::of(1)
                .connect(0, &[])
                .connect(1, &[])
                .say(1, &[simple(&["SELECT nextval('diff.counter')"])])
                .say(0, &[simple(&["SELECT currval('diff.counter')"])]),
        ),
        (
            "seed 2: a Parse that came before the census did not know of a PREPARE of the same name",
            Script::of(1)
                .connect(1, &[])
                .say(1, &[simple(&["PREPARE s2 AS SELECT 76 AS p"])])
                .say(1, &[extended(&[parse("s2", "SELECT 2")])]),
        ),
        (
            "a temporary table stayed for whoever came next when its client had gone",
            Script::of(1)
                .observe(Observe::AtTheEnd)
                .connect(2, &[])
                .say(2, &[simple(&["CREATE TEMP SEQUENCE q1"])])
                .leave(2, Leave::Abruptly),
        ),
        (
            "a parameter that no message reports stayed on the server connection",
            Script::of(1)
                .connect(0, &[])
                .connect(1, &[])
                .say(
                    0,
                    &[extended(&[
                        parse("", "SELECT set_config($1, $2, false)"),
                        bind("", "", &["app.tenant", "x"]),
                        execute("", 0),
                    ])],
                )
                .say(1, &[simple(&["SELECT v FROM spot"])]),
        ),
    ]
}
