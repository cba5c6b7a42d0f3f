//! The console's language: a text becomes a [`Command`], or a reason why not. Pure.
//!
//! As in PgBouncer, words may be in any case, one `;` may follow, `SELECT x` is `SHOW x`, and what drivers ask of every server when
//! they connect is answered or ignored.

use super::super::Phase;
use super::super::act::Target;
use super::super::console_client::Privilege;
use super::show::Show;
use super::table::{Columns, Kind};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// No text, or only a comment.
    Nothing,
    Show(Show),
    /// A parameter that drivers ask for.
    ShowParameter(Fake),
    /// A parameter that drivers set: ignored.
    SetParameter,
    Set {
        key: String,
        value: String,
    },
    Reload,
    Pause(Target),
    Resume(Target),
    Disable(String),
    Enable(String),
    Reconnect(Target),
    Kill(Target),
    KillClient(u64),
    WaitClose(Target),
    Shutdown(Phase),
}

impl Command {
    /// `None`: it answers without rows.
    pub fn columns(&self) -> Option<Columns> {
        match self {
            Command::Show(show) => show.columns(),
            Command::ShowParameter(fake) => Some(fake.columns),
            _ => None,
        }
    }

    /// For the log: what is done to whom.
    pub fn description(&self) -> String {
        match self {
            Command::Pause(target)
            | Command::Resume(target)
            | Command::Reconnect(target)
            | Command::Kill(target)
            | Command::WaitClose(target) => format!("{} {target}", self.tag()),
            Command::Disable(name) | Command::Enable(name) => {
                format!("{} database {name}", self.tag())
            }
            Command::KillClient(id) => format!("{} {id}", self.tag()),
            Command::Shutdown(phase) => format!("{}, {}", self.tag(), phase.announcement()),
            _ => self.tag(),
        }
    }

    /// CommandComplete's tag: the command's first word, as in PgBouncer.
    pub fn tag(&self) -> String {
        let word = match self {
            Command::Nothing => "",
            Command::Show(_) | Command::ShowParameter(_) => "SHOW",
            Command::SetParameter => "SET",
            Command::Set { key, value } => return format!("SET {key}={value}"),
            Command::Reload => "RELOAD",
            Command::Pause(_) => "PAUSE",
            Command::Resume(_) => "RESUME",
            Command::Disable(_) => "DISABLE",
            Command::Enable(_) => "ENABLE",
            Command::Reconnect(_) => "RECONNECT",
            Command::Kill(_) => "KILL",
            Command::KillClient(_) => "KILL_CLIENT",
            Command::WaitClose(_) => "WAIT_CLOSE",
            Command::Shutdown(_) => "SHUTDOWN",
        };
        word.to_owned()
    }
}

/// What a user must be allowed to do for a command. The only place that says it.
pub fn required(command: &Command) -> Privilege {
    match command {
        Command::Nothing | Command::Show(_) | Command::ShowParameter(_) | Command::SetParameter => {
            Privilege::Stats
        }
        Command::Set { .. }
        | Command::Reload
        | Command::Pause(_)
        | Command::Resume(_)
        | Command::Disable(_)
        | Command::Enable(_)
        | Command::Reconnect(_)
        | Command::Kill(_)
        | Command::KillClient(_)
        | Command::WaitClose(_)
        | Command::Shutdown(_) => Privilege::Admin,
    }
}

/// Whether who has `privilege` may run a command.
pub fn allowed(privilege: Privilege, command: &Command) -> bool {
    match privilege {
        Privilege::Admin => true,
        Privilege::Stats => required(command) == Privilege::Stats,
    }
}

/// A parameter of PostgreSQL that the console pretends to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fake {
    /// One column, named like the parameter.
    pub columns: Columns,
    pub value: &'static str,
}

const FAKES: [Fake; 6] = [
    Fake {
        columns: &[("client_encoding", Kind::Text)],
        value: "UTF-8",
    },
    Fake {
        columns: &[("datestyle", Kind::Text)],
        value: "ISO",
    },
    Fake {
        columns: &[("default_transaction_isolation", Kind::Text)],
        value: "read committed",
    },
    Fake {
        columns: &[("extra_float_digits", Kind::Text)],
        value: "1",
    },
    Fake {
        columns: &[("standard_conforming_strings", Kind::Text)],
        value: "on",
    },
    Fake {
        columns: &[("timezone", Kind::Text)],
        value: "GMT",
    },
];

fn fake(name: &str) -> Option<Fake> {
    FAKES.into_iter().find(|fake| {
        fake.columns
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name))
    })
}

/// Why a text is no command.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    #[error("invalid command '{text}'")]
    Unknown {
        text: String,
        nearest: Option<&'static str>,
    },
    #[error("{command} needs the name of a database")]
    DatabaseMissing { command: &'static str },
    #[error("{command}: {problem}")]
    Argument {
        command: &'static str,
        problem: &'static str,
    },
}

impl Malformed {
    pub fn hint(&self) -> String {
        match self {
            Malformed::Unknown {
                nearest: Some(nearest),
                ..
            } => format!("Did you mean {nearest}?"),
            _ => "SHOW HELP lists the commands.".to_owned(),
        }
    }
}

/// Understands one command.
pub fn parse(text: &str) -> Result<Command, Malformed> {
    let Some(words) = words(text) else {
        return Err(unknown(text));
    };
    let Some((first, rest)) = words.split_first() else {
        return Ok(Command::Nothing);
    };
    match (first.text.to_ascii_uppercase().as_str(), rest) {
        ("SHOW" | "SELECT", [what]) => show(text, &what.text),
        ("SET", [_, ..]) => set(text),
        ("RELOAD", []) => Ok(Command::Reload),
        ("PAUSE", rest) => target(text, rest).map(Command::Pause),
        ("RESUME", rest) => target(text, rest).map(Command::Resume),
        ("RECONNECT", rest) => target(text, rest).map(Command::Reconnect),
        ("KILL", rest) => target(text, rest).map(Command::Kill),
        ("WAIT_CLOSE", rest) => target(text, rest).map(Command::WaitClose),
        ("DISABLE", rest) => database(text, "DISABLE", rest).map(Command::Disable),
        ("ENABLE", rest) => database(text, "ENABLE", rest).map(Command::Enable),
        ("KILL_CLIENT", [id]) => client_id(&id.text).map(Command::KillClient),
        ("SHUTDOWN", []) => Ok(Command::Shutdown(Phase::Ended)),
        ("SHUTDOWN", [how]) => shutdown(text, &how.text),
        ("SUSPEND", []) => Err(Malformed::Argument {
            command: "SUSPEND",
            problem: "PgBouncer 1.26 removed it; use PAUSE",
        }),
        _ => Err(unknown(text)),
    }
}

fn show(text: &str, what: &str) -> Result<Command, Malformed> {
    let known = Show::ALL
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(what))
        .map(|(_, show)| Command::Show(*show));
    known
        .or_else(|| fake(what).map(Command::ShowParameter))
        .ok_or_else(|| unknown(text))
}

/// `SET key = value` or `SET key TO value`; the value may be quoted.
fn set(text: &str) -> Result<Command, Malformed> {
    let wrong = |problem| Malformed::Argument {
        command: "SET",
        problem,
    };
    let assignment = trimmed(text)
        .get("SET".len()..)
        .unwrap_or_default()
        .trim_start();
    let end = assignment
        .find(|c: char| c.is_whitespace() || c == '=')
        .unwrap_or(assignment.len());
    let (key, rest) = assignment.split_at(end);
    let rest = rest.trim_start();
    let value = rest
        .strip_prefix('=')
        .or_else(|| strip_to(rest))
        .ok_or(wrong("write SET key = value"))?;
    if fake(key).is_some() {
        return Ok(Command::SetParameter);
    }
    let value = value.trim();
    let value = match value.strip_prefix('\'') {
        None => value.to_owned(),
        Some(quoted) => {
            unquote(quoted).ok_or(wrong("the quotes around the value are not balanced"))?
        }
    };
    match value.chars().any(char::is_control) {
        true => Err(wrong("a value is one line of text")),
        false => Ok(Command::Set {
            key: key.to_ascii_lowercase(),
            value,
        }),
    }
}

fn strip_to(text: &str) -> Option<&str> {
    let (word, value) = text.split_at_checked(2)?;
    (word.eq_ignore_ascii_case("to") && value.starts_with(char::is_whitespace)).then_some(value)
}

/// A text after its opening quote: what is inside, if the closing one ends it.
fn unquote(quoted: &str) -> Option<String> {
    let inside = quoted.strip_suffix('\'')?;
    (!inside.replace("''", "").contains('\'')).then(|| inside.replace("''", "'"))
}

fn target(text: &str, rest: &[Word]) -> Result<Target, Malformed> {
    match rest {
        [] => Ok(Target::All),
        [name] => Ok(Target::Database(name.name())),
        _ => Err(unknown(text)),
    }
}

fn database(text: &str, command: &'static str, rest: &[Word]) -> Result<String, Malformed> {
    match rest {
        [] => Err(Malformed::DatabaseMissing { command }),
        [name] => Ok(name.name()),
        _ => Err(unknown(text)),
    }
}

/// The id of SHOW CLIENTS, or the same in hex as its column `ptr` shows it.
fn client_id(text: &str) -> Result<u64, Malformed> {
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    number.map_err(|_| Malformed::Argument {
        command: "KILL_CLIENT",
        problem: "give the id that SHOW CLIENTS shows",
    })
}

fn shutdown(text: &str, how: &str) -> Result<Command, Malformed> {
    match how.to_ascii_uppercase().as_str() {
        "WAIT_FOR_SERVERS" => Ok(Command::Shutdown(Phase::WaitingForServers)),
        "WAIT_FOR_CLIENTS" => Ok(Command::Shutdown(Phase::WaitingForClients)),
        _ => Err(unknown(text)),
    }
}

/// The text without blanks around it and the `;` after it.
fn trimmed(text: &str) -> &str {
    let text = text.trim();
    text.strip_suffix(';').unwrap_or(text).trim_end()
}

#[derive(PartialEq, Eq, Debug)]
struct Word {
    text: String,
    quoted: bool,
}

impl Word {
    /// As a database's name: PgBouncer does not fold it, quoted or not.
    fn name(&self) -> String {
        self.text.clone()
    }
}

/// Words between blanks; one in double quotes may hold anything. `None` when quotes are not closed.
fn words(text: &str) -> Option<Vec<Word>> {
    let mut words = Vec::new();
    let mut rest = trimmed(text);
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_word(quoted)?,
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (
                    Word {
                        text: rest[..end].to_owned(),
                        quoted: false,
                    },
                    &rest[end..],
                )
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    Some(words)
}

fn quoted_word(mut rest: &str) -> Option<(Word, &str)> {
    let mut text = String::new();
    loop {
        let (inside, after) = rest.split_once('"')?;
        text.push_str(inside);
        match after.strip_prefix('"') {
            None => return Some((Word { text, quoted: true }, after)),
            Some(more) => rest = more,
        }
        text.push('"');
    }
}

/// The commands that a slip of the pen may have meant, apart from SHOW.
const COMMANDS: [&str; 13] = [
    "SET key = value",
    "RELOAD",
    "PAUSE",
    "RESUME",
    "DISABLE",
    "ENABLE",
    "RECONNECT",
    "KILL",
    "KILL_CLIENT",
    "WAIT_CLOSE",
    "SHUTDOWN",
    "SHUTDOWN WAIT_FOR_CLIENTS",
    "SHUTDOWN WAIT_FOR_SERVERS",
];

fn unknown(text: &str) -> Malformed {
    const QUOTED_CHARS_MAX: usize = 60;
    let text: String = trimmed(text)
        .chars()
        .filter(|c| !c.is_control())
        .take(QUOTED_CHARS_MAX)
        .collect();
    let nearest = nearest(&text.to_ascii_uppercase());
    Malformed::Unknown { text, nearest }
}

fn nearest(text: &str) -> Option<&'static str> {
    const SIMILARITY_MIN: f64 = 0.85;
    let shows = Show::ALL.iter().map(|(_, show)| show.command());
    let similar = |command: &'static str| {
        // The first word alone counts a little less, so that a command with an argument can win.
        let whole = strsim::jaro_winkler(text, command);
        let first_word = text
            .split_whitespace()
            .next()
            .map_or(0.0, |word| strsim::jaro_winkler(word, command));
        (whole.max(0.95 * first_word), command)
    };
    shows
        .chain(COMMANDS)
        .map(similar)
        .filter(|(similarity, _)| *similarity >= SIMILARITY_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, command)| command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn db(name: &str) -> Target {
        Target::Database(name.to_owned())
    }

    fn set_to(key: &str, value: &str) -> Command {
        Command::Set {
            key: key.to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn commands() {
        let table = [
            ("", Command::Nothing),
            (" ; ", Command::Nothing),
            ("SHOW POOLS", Command::Show(Show::Pools)),
            ("show pools;", Command::Show(Show::Pools)),
            (
                "  Show\n stats_averages ; ",
                Command::Show(Show::StatsAverages),
            ),
            ("select version", Command::Show(Show::Version)),
            ("SHOW datestyle", Command::ShowParameter(FAKES[1])),
            ("SET DateStyle TO 'ISO'", Command::SetParameter),
            ("SET extra_float_digits = 3", Command::SetParameter),
            ("SET client_encoding='utf-8'", Command::SetParameter),
            ("SET verbose=1", set_to("verbose", "1")),
            (
                "set Pool_Mode TO transaction;",
                set_to("pool_mode", "transaction"),
            ),
            (
                "SET server_check_query = 'select ''x'';'",
                set_to("server_check_query", "select 'x';"),
            ),
            ("SET stats_users = a, b", set_to("stats_users", "a, b")),
            ("SET auth_user =", set_to("auth_user", "")),
            ("RELOAD", Command::Reload),
            ("PAUSE", Command::Pause(Target::All)),
            ("PAUSE Db", Command::Pause(db("Db"))),
            ("PAUSE \"my \"\"db;\"", Command::Pause(db("my \"db;"))),
            ("RESUME a", Command::Resume(db("a"))),
            ("DISABLE a", Command::Disable("a".into())),
            ("ENABLE a", Command::Enable("a".into())),
            ("RECONNECT", Command::Reconnect(Target::All)),
            ("KILL a", Command::Kill(db("a"))),
            ("KILL_CLIENT 17", Command::KillClient(17)),
            ("KILL_CLIENT 0x11", Command::KillClient(17)),
            ("WAIT_CLOSE", Command::WaitClose(Target::All)),
            ("SHUTDOWN", Command::Shutdown(Phase::Ended)),
            (
                "SHUTDOWN wait_for_servers",
                Command::Shutdown(Phase::WaitingForServers),
            ),
            (
                "SHUTDOWN WAIT_FOR_CLIENTS",
                Command::Shutdown(Phase::WaitingForClients),
            ),
        ];
        for (text, command) in table {
            assert_eq!(parse(text), Ok(command), "{text}");
        }
    }

    #[test]
    fn every_show_is_found_by_its_name() {
        for (name, show) in Show::ALL {
            assert_eq!(parse(&format!("SHOW {name}")), Ok(Command::Show(*show)));
            assert_eq!(show.command(), format!("SHOW {name}"));
        }
    }

    #[test]
    fn what_is_no_command() {
        let texts = [
            "SHOW",
            "SELECT 1",
            "SELECT * FROM pools",
            "PAUSE a b",
            "BEGIN",
            "SHOW POOLS; SHOW STATS",
            "DISABLE",
            "SET",
            "SET x",
            "SET x y",
            "SET x TOy",
            "SET x = 'y",
            "SET x = 'y'z'",
            "SET x = 'a\nb'",
            "KILL_CLIENT",
            "KILL_CLIENT x",
            "KILL_CLIENT -1",
            "SHUTDOWN NOW",
            "PAUSE \"a",
            "RELOAD x",
            "SUSPEND",
            "é",
            "SETé",
        ];
        for text in texts {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_nearest_command_is_named() {
        let table = [
            ("SHOW POOL", Some("SHOW POOLS")),
            ("show stat_totals", Some("SHOW STATS_TOTALS")),
            ("RELAOD", Some("RELOAD")),
            ("PUASE mydb", Some("PAUSE")),
            (
                "SHUTDOWN WAIT_FOR_CLIENT",
                Some("SHUTDOWN WAIT_FOR_CLIENTS"),
            ),
            ("INSERT INTO a VALUES (1)", None),
        ];
        for (text, expected) in table {
            let Err(Malformed::Unknown { nearest, .. }) = parse(text) else {
                panic!("{text} is a command")
            };
            assert_eq!(nearest, expected, "{text}");
        }
    }

    #[test]
    fn stats_users_may_look_and_nothing_else() {
        let texts = [
            "SET verbose = 1",
            "RELOAD",
            "PAUSE",
            "PAUSE a",
            "RESUME",
            "DISABLE a",
            "ENABLE a",
            "RECONNECT",
            "KILL",
            "KILL a",
            "KILL_CLIENT 1",
            "WAIT_CLOSE",
            "SHUTDOWN",
            "SHUTDOWN WAIT_FOR_CLIENTS",
            "SHUTDOWN WAIT_FOR_SERVERS",
        ];
        for text in texts {
            let command = parse(text).expect("a command");
            assert!(
                !allowed(Privilege::Stats, &command) && allowed(Privilege::Admin, &command),
                "{text}"
            );
        }
        let shows = Show::ALL.iter().map(|(_, show)| Command::Show(*show));
        for command in shows.chain([
            Command::Nothing,
            Command::SetParameter,
            Command::ShowParameter(FAKES[0]),
        ]) {
            assert!(allowed(Privilege::Stats, &command), "{command:?}");
        }
    }
}
