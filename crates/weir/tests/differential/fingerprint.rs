//! A session's whole state, as the session itself sees it: `diff.fingerprint` in `fixture.sql` says what belongs to it.

use crate::client::Client;
use crate::script::{Part, bind, close_portal, close_statement, execute, parse};

/// Sorted lines of kind, name and value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    lines: Vec<String>,
}

/// Kinds that keep a client on its server connection.
const PINS: [&str; 4] = ["lock|", "temporary|", "cursor|", "channel|"];
/// What asks for channels has to say so itself, not by way of a view: they are elsewhere as long as nobody asks.
const ALL: &str = "SELECT kind, name, value FROM diff.fingerprint \
    UNION ALL SELECT 'channel', channel, '' FROM pg_listening_channels() AS channel";
const NAME: &str = "diff_fingerprint";

impl Fingerprint {
    /// `None` when the session does not answer.
    pub fn take(client: &mut Client) -> Option<Self> {
        let mut lines = client.rows(ALL)?;
        lines.sort();
        Some(Fingerprint { lines })
    }

    /// Whether the session holds what no other server connection can have.
    pub fn pins(&self) -> bool {
        let is_pin = |line: &String| PINS.iter().any(|pin| line.starts_with(pin));
        self.lines.iter().any(is_pin)
    }

    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// A query in the extended protocol that leaves the unnamed statement and portal alone.
pub fn question(sql: &str) -> Vec<Part> {
    vec![
        parse(NAME, sql),
        bind(NAME, NAME, &[]),
        execute(NAME, 0),
        close_portal(NAME),
        close_statement(NAME),
    ]
}
