//! The manual's page about the configuration, written from the declarations themselves.

use crate::general::{Changeable, Setting, Status, catalogue};
use crate::parameters::Parameter;
use crate::{database, peer, user};

/// `docs/configuration.md`.
pub fn markdown() -> String {
    let sections = [
        INTRODUCTION.to_owned(),
        overview(),
        settings(),
        DATABASES.to_owned(),
        table(database::PARAMETERS),
        USERS.to_owned(),
        table(user::PARAMETERS),
        PEERS.to_owned(),
        table(peer::PARAMETERS),
    ];
    sections.concat()
}

/// All settings on one screen, in alphabetical order.
fn overview() -> String {
    let mut settings: Vec<&Setting> = catalogue().iter().collect();
    settings.sort_by_key(|setting| setting.name);
    let rows = settings.iter().map(|setting| {
        let name = setting.name;
        format!(
            "| [`{name}`](#{name}) | {} | {} |{}\n",
            default(setting),
            changes(setting),
            status(setting)
        )
    });
    format!("{OVERVIEW}{}", rows.collect::<String>())
}

fn settings() -> String {
    let mut group = "";
    catalogue().iter().fold(String::new(), |mut page, setting| {
        if setting.group != group {
            group = setting.group;
            page.push_str(&format!("\n### {group}\n"));
        }
        page.push_str(&entry(setting));
        page
    })
}

fn entry(setting: &Setting) -> String {
    let lines: Vec<&str> = setting
        .doc
        .iter()
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let status = match setting.status {
        Status::InEffect => "",
        Status::NotYet => " **Not yet in effect.**",
        Status::Unneeded => " Accepted, without effect in Weir.",
    };
    let changeable = match setting.changeable {
        Changeable::Boot => "Changes only by a restart.",
        Changeable::Reload => "Changes by `RELOAD` and `SET`.",
    };
    let (name, text, default, expected) = (
        setting.name,
        lines.join("\n"),
        default(setting),
        setting.expected,
    );
    format!(
        "\n#### {name}\n\n{text}\n\nValue: {expected}. Default: {default}. {changeable}{status}\n"
    )
}

fn default(setting: &Setting) -> String {
    match setting.default {
        "" => "not set".to_owned(),
        default => format!("`{default}`"),
    }
}

fn changes(setting: &Setting) -> &'static str {
    match setting.changeable {
        Changeable::Boot => "restart",
        Changeable::Reload => "reload",
    }
}

fn status(setting: &Setting) -> &'static str {
    match setting.status {
        Status::InEffect => " |",
        Status::NotYet => " not yet |",
        Status::Unneeded => " no effect |",
    }
}

fn table<T>(parameters: &[Parameter<T>]) -> String {
    let rows = parameters
        .iter()
        .map(|parameter| format!("| `{}` | {} |\n", parameter.name, parameter.doc));
    format!(
        "\n| key | meaning |\n| --- | --- |\n{}",
        rows.collect::<String>()
    )
}

const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from crates/settings: change the texts there, then run `UPDATE_DOCS=1 cargo test -p settings`. -->

Weir reads the file that PgBouncer reads: `pgbouncer.ini`, with the same names, defaults and syntax. What is only in Weir, or
differs, says so where it is described. `weir check CONFIG.ini` reports every mistake of a file with its line, without starting.

## The file

    [pgbouncer]
    listen_addr = 127.0.0.1
    auth_file = /etc/pgbouncer/userlist.txt
    pool_mode = transaction

    [databases]
    shop = host=10.0.0.5 dbname=shop_production pool_size=40
    \"web shop\" = host=10.0.0.5,10.0.0.6 port=5433
    * = host=10.0.0.7

    [users]
    reporting = pool_mode=session query_timeout=600

- A line that starts with `;` or `#` is a comment. Further to the right these characters are part of the value.
- A name of other characters than letters, digits and `_ . - *` stands in double quotes; a double quote within it is doubled.
- In `[databases]`, `[users]` and `[peers]` a value that contains blanks stands in single quotes; a single quote within it is doubled.
- `%include FILE` reads another file in place. The name is relative to the working folder, as in PgBouncer; if no such file is there, Weir looks
  beside the including file. Files may include each other ten levels deep.
- A time is a number of seconds without a unit; fractions are allowed. A truth value is `0` or `1` (also `no`/`yes`, `off`/`on`, `false`/`true`).
- Numbers are decimal, or hexadecimal after `0x`. PgBouncer takes a leading zero for octal; Weir refuses it, except in `unix_socket_mode`.

An unknown name, a bad value, a name that is set twice (PgBouncer takes the last) or a file that is missing is an error: Weir does not start, and a `RELOAD` changes
nothing. A valid file is applied whole. Settings that change only by a restart keep their running value until then, and the log names them.

## `[pgbouncer]`
";

const OVERVIEW: &str = "
| setting | default | changes by | |
| --- | --- | --- | --- |
";

const DATABASES: &str = "
## `[databases]`

One line for each database that clients may name: `name = key=value key=value ...`. The name `*` stands for every name without a line of its own.
`pgbouncer` and `weir` lead to the console and cannot be used. A size of `-1` is the same as none given.
";

const USERS: &str = "
## `[users]`

One line for each user that differs: `name = key=value ...`. A user's value wins over the database's, and the database's over
`[pgbouncer]`. As in PgBouncer, `query_wait_timeout`, `client_idle_timeout` and `max_user_client_connections` count for the user that the client is; the
others count for the user that logs in to PostgreSQL, which is the database's forced user if there is one.
";

const PEERS: &str = "
## `[peers]`

One line for each process that shares a port: `peer_id = host=... port=...`. **Not yet in effect**: the lines are checked, and cancel requests are not passed on. One
Weir uses all cores and needs no peers for that.
";
