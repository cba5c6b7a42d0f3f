//! An ini file that is changed line by line: what is there stays, comments included, and each change says why.
//!
//! Knows the file's syntax only as far as it has to find lines (docs/configuration.md): `;` and `#` begin a comment at a line's start, a value
//! runs to its line's end, a section may be opened again. Whether the result is valid is not decided here.

use super::advice::{DatabaseAdvice, IniAdvice, SettingAdvice};

/// How a line of this program's own begins; the next run replaces it.
const MARK: &str = "; weir advise: ";
const MAIN: &str = "pgbouncer";
const DATABASES: &str = "databases";
const USERS: &str = "users";

/// A changed text, and in words what was changed and what was not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    pub text: String,
    pub changes: Vec<String>,
    pub notes: Vec<String>,
}

/// Puts the advice into `text`.
pub fn merge(text: &str, advice: &IniAdvice) -> Merged {
    let mut file = File::read(text);
    let default = advice
        .settings
        .iter()
        .find(|setting| setting.name == "default_pool_size")
        .map(|setting| setting.value.as_str());
    for database in &advice.databases {
        file.database(database, default);
    }
    for setting in &advice.settings {
        file.setting(setting);
    }
    file.users();
    if file.includes() {
        file.notes
            .push("the file includes others: what is set there was not looked at".into());
    }
    Merged {
        text: file.lines.join("\n"),
        changes: file.changes,
        notes: file.notes,
    }
}

/// The advice as sections of a new file. `server` is where the databases are, as their parameters say it.
pub fn sections(advice: &IniAdvice, server: &str) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    if !advice.databases.is_empty() {
        line(format!("[{DATABASES}]"));
    }
    for database in &advice.databases {
        line(format!("{MARK}{}", database.why));
        let parameters = parameters(database).into_iter();
        let parameters: Vec<String> = parameters
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        line(format!(
            "{} = {server} {}",
            quoted(&database.database),
            parameters.join(" ")
        ));
    }
    if !advice.databases.is_empty() {
        line(String::new());
    }
    line(format!("[{MAIN}]"));
    for setting in &advice.settings {
        line(format!("{MARK}{}", setting.why));
        line(format!("{} = {}", setting.name, setting.value));
    }
    text
}

fn parameters(advice: &DatabaseAdvice) -> Vec<(&'static str, String)> {
    let mut parameters = vec![("pool_size", advice.pool_size.to_string())];
    parameters.extend(
        advice
            .max_db_connections
            .map(|count| ("max_db_connections", count.to_string())),
    );
    parameters
}

/// A name with other characters than these has to be quoted.
fn quoted(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    match !name.is_empty() && name.chars().all(bare) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

struct File {
    lines: Vec<String>,
    /// "\r" where lines end so.
    ending: &'static str,
    changes: Vec<String>,
    notes: Vec<String>,
}

/// A line `key = value`.
struct Entry {
    line: usize,
    key: String,
    value: String,
}

impl File {
    fn read(text: &str) -> Self {
        let lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
        let ending = match lines.first().is_some_and(|first| first.ends_with('\r')) {
            true => "\r",
            false => "",
        };
        Self {
            lines,
            ending,
            changes: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn includes(&self) -> bool {
        let mut lines = self.lines.iter();
        lines.any(|line| line.trim_start().starts_with("%include"))
    }

    /// The entries of a section, in the file's order.
    fn entries(&self, wanted: &str) -> Vec<Entry> {
        let mut section = "";
        let mut entries = Vec::new();
        for (line, text) in self.lines.iter().enumerate() {
            let text = text.trim();
            if let Some(name) = section_of(text) {
                section = name;
            } else if section == wanted
                && let Some((key, value)) = entry(text)
            {
                entries.push(Entry {
                    line,
                    key,
                    value: value.into(),
                });
            }
        }
        entries
    }

    fn setting(&mut self, advice: &SettingAdvice) {
        let mut entries = self.entries(MAIN).into_iter();
        let found = entries.rfind(|entry| entry.key == advice.name);
        match found {
            Some(own) if advice.yields_to(&own.value) => {
                if own.value != advice.value {
                    self.notes.push(format!(
                        "{} = {} stays ({} would do)",
                        advice.name, own.value, advice.value
                    ));
                }
            }
            Some(own) => {
                self.changes.push(format!(
                    "{} = {}, was {}",
                    advice.name, advice.value, own.value
                ));
                let why = format!("{}; was {}", advice.why, own.value);
                self.replace(own.line, &advice.value, &why);
            }
            None => {
                self.changes
                    .push(format!("{} = {}, new", advice.name, advice.value));
                let line = format!("{} = {}", advice.name, advice.value);
                self.append(MAIN, &line, &advice.why);
            }
        }
    }

    /// A user's own size wins over a database's, and is left to whoever has set it.
    fn users(&mut self) {
        for user in self.entries(USERS) {
            if let Some(size) = parameter(&user.value, "pool_size") {
                self.notes.push(format!(
                    "user {} has pool_size={size}, which wins over that of databases",
                    user.key
                ));
            }
        }
    }

    /// Sizes go into every line that leads to the database, or into a copy of the line `*`.
    fn database(&mut self, advice: &DatabaseAdvice, default: Option<&str>) {
        let entries = self.entries(DATABASES);
        let leads_there = |entry: &&Entry| {
            let named = parameter(&entry.value, "dbname");
            entry.key != "*" && named.as_deref().unwrap_or(&entry.key) == advice.database
        };
        let mut leading: Vec<(usize, String, String)> = entries
            .iter()
            .filter(leads_there)
            .map(|entry| (entry.line, entry.key.clone(), entry.value.clone()))
            .collect();
        if leading.is_empty() {
            return self.database_of_all(advice, default, &entries);
        }
        // From below: a line above may get a comment.
        leading.reverse();
        for (line, name, value) in leading {
            if parameter(&value, "pool_mode").as_deref() == Some("session") {
                self.notes.push(format!(
                    "{name} has pool_mode=session: its size stays, for it has to hold every connected client"
                ));
                continue;
            }
            self.parameters(line, &name, &value, advice, default);
        }
    }

    fn parameters(
        &mut self,
        line: usize,
        name: &str,
        old: &str,
        advice: &DatabaseAdvice,
        default: Option<&str>,
    ) {
        let mut new = old.to_owned();
        for (parameter_name, value) in parameters(advice) {
            let own = parameter(&new, parameter_name);
            let by_default = parameter_name == "pool_size" && default == Some(value.as_str());
            if own.as_deref() == Some(value.as_str()) || (own.is_none() && by_default) {
                continue;
            }
            new = with_parameter(&new, parameter_name, &value);
            self.changes.push(match own {
                Some(own) => format!("{name}: {parameter_name}={value}, was {own}"),
                None => format!("{name}: {parameter_name}={value}, new"),
            });
        }
        if new != old {
            self.replace(line, &new, &advice.why);
        }
    }

    fn database_of_all(
        &mut self,
        advice: &DatabaseAdvice,
        default: Option<&str>,
        entries: &[Entry],
    ) {
        let name = &advice.database;
        let Some(all) = entries.iter().rfind(|entry| entry.key == "*") else {
            self.notes.push(format!(
                "no line of [databases] leads to {name}, so nothing is set for it (pool_size={} would do)",
                advice.pool_size
            ));
            return;
        };
        let elsewhere = parameter(&all.value, "dbname").is_some_and(|named| named != *name);
        let by_default = default == Some(advice.pool_size.to_string().as_str());
        let nothing_else =
            parameter(&all.value, "pool_size").is_none() && advice.max_db_connections.is_none();
        if elsewhere || (by_default && nothing_else) {
            return;
        }
        let value = parameters(advice)
            .into_iter()
            .fold(all.value.clone(), |value, (parameter, number)| {
                with_parameter(&value, parameter, &number)
            });
        self.changes
            .push(format!("{name}: a line of its own, from that of *"));
        let line = format!("{} = {value}", quoted(name));
        self.append(DATABASES, &line, &advice.why);
    }

    /// The line keeps its beginning up to the value.
    fn replace(&mut self, line: usize, value: &str, why: &str) {
        let old = &self.lines[line];
        // The key may be quoted and hold a "=".
        let after_key = old.len() - entry_rest(old.trim_start()).map_or(0, str::len);
        let head = match old[after_key..].find('=') {
            Some(equals) => &old[..after_key + equals + 1],
            None => return,
        };
        self.lines[line] = format!("{head} {value}{}", self.ending);
        let comment = format!("{MARK}{why}{}", self.ending);
        match line
            .checked_sub(1)
            .and_then(|above| self.lines.get_mut(above))
        {
            Some(above) if above.starts_with(MARK) => *above = comment,
            _ => self.lines.insert(line, comment),
        }
    }

    /// Below the section's last entry, or its heading, or in a new section at the file's end.
    fn append(&mut self, section: &str, text: &str, why: &str) {
        let heading = self
            .lines
            .iter()
            .rposition(|line| section_of(line.trim()) == Some(section));
        let at = match heading {
            None => {
                let end = self.lines.iter().rposition(|line| !line.trim().is_empty());
                let end = end.map_or(0, |last| last + 1);
                self.lines.splice(
                    end..end,
                    [
                        self.ending.to_owned(),
                        format!("[{section}]{}", self.ending),
                    ],
                );
                end + 2
            }
            Some(heading) => {
                let rest = &self.lines[heading + 1..];
                let until = rest
                    .iter()
                    .position(|line| section_of(line.trim()).is_some())
                    .unwrap_or(rest.len());
                let last = rest[..until].iter().rposition(|line| {
                    let line = line.trim();
                    !line.is_empty() && !line.starts_with([';', '#'])
                });
                heading + 1 + last.map_or(0, |last| last + 1)
            }
        };
        let lines = [format!("{MARK}{why}"), text.to_owned()];
        let lines = lines.map(|line| line + self.ending);
        self.lines.splice(at..at, lines);
        if self.lines.last().is_some_and(|last| !last.is_empty()) {
            self.lines.push(String::new());
        }
    }
}

/// The section that a trimmed line opens; of several on one line the last.
fn section_of(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix('[')?.split_once(']')?;
    section_of(rest.trim()).or(Some(name))
}

/// Key and value of a trimmed line that has them.
fn entry(line: &str) -> Option<(String, &str)> {
    if line.starts_with([';', '#', '%', '[']) {
        return None;
    }
    let rest = entry_rest(line)?;
    let key = line[..line.len() - rest.len()].trim();
    let key = match key.strip_prefix('"').and_then(|key| key.strip_suffix('"')) {
        Some(inside) => inside.replace("\"\"", "\""),
        None => key.to_owned(),
    };
    let value = rest.trim_start().strip_prefix('=')?;
    Some((key, value.trim()))
}

/// What follows the key.
fn entry_rest(line: &str) -> Option<&str> {
    let Some(quoted) = line.strip_prefix('"') else {
        let end = line.find(|c: char| c == '=' || c.is_whitespace())?;
        return Some(&line[end..]);
    };
    let mut rest = quoted;
    loop {
        let (_, after) = rest.split_once('"')?;
        match after.strip_prefix('"') {
            Some(more) => rest = more,
            None => return Some(after),
        }
    }
}

/// Where the values of `key=value key='quoted ''value'''` stand: names, and the places of the values in the text.
fn places(text: &str) -> Vec<(&str, std::ops::Range<usize>)> {
    let mut places = Vec::new();
    let mut at = 0;
    while let Some(equals) = text[at..].find('=').map(|found| at + found) {
        let name = text[at..equals].trim();
        let start = equals + 1 + (text[equals + 1..].len() - text[equals + 1..].trim_start().len());
        let end = start + value_length(&text[start..]);
        places.push((name, start..end));
        at = end;
    }
    places
}

fn value_length(text: &str) -> usize {
    let Some(quoted) = text.strip_prefix('\'') else {
        return text.find(char::is_whitespace).unwrap_or(text.len());
    };
    let mut length = 1;
    let mut rest = quoted;
    while let Some((inside, after)) = rest.split_once('\'') {
        length += inside.len() + 1;
        match after.strip_prefix('\'') {
            Some(more) => {
                length += 1;
                rest = more;
            }
            None => return length,
        }
    }
    text.len()
}

fn parameter(text: &str, name: &str) -> Option<String> {
    let found = places(text).into_iter().find(|(known, _)| *known == name);
    let (_, place) = found?;
    let value = &text[place];
    Some(
        match value
            .strip_prefix('\'')
            .and_then(|value| value.strip_suffix('\''))
        {
            Some(inside) => inside.replace("''", "'"),
            None => value.to_owned(),
        },
    )
}

fn with_parameter(text: &str, name: &str, value: &str) -> String {
    let found = places(text).into_iter().find(|(known, _)| *known == name);
    match found {
        Some((_, place)) => format!("{}{value}{}", &text[..place.start], &text[place.end..]),
        None if text.is_empty() => format!("{name}={value}"),
        None => format!("{text} {name}={value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advise::advice::Keeps;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    const FILE: &str = "; ours\n[databases]\n# the shop\nshop = host=10.0.0.5 dbname=store password='it''s = x' pool_size=100\n\"my db\" = host=h\n* = host=h\n\n\
                        [pgbouncer]\n;default_pool_size = 7\n  default_pool_size= 20\nlisten_port = 6432 \n; the end\n";

    fn setting(name: &'static str, value: &str, keeps: Keeps) -> SettingAdvice {
        SettingAdvice {
            name,
            value: value.into(),
            why: "because".into(),
            keeps,
        }
    }

    fn database(name: &str, pool_size: u32, all: Option<u32>) -> DatabaseAdvice {
        DatabaseAdvice {
            database: name.into(),
            pool_size,
            max_db_connections: all,
            why: "why".into(),
        }
    }

    #[test]
    fn what_is_there_stays_and_what_is_advised_is_changed_in_its_place() {
        let advice = IniAdvice {
            databases: vec![
                database("store", 12, None),
                database("my db", 5, None),
                database("other", 3, Some(9)),
            ],
            settings: vec![
                setting("default_pool_size", "5", Keeps::Nothing),
                setting("max_client_conn", "400", Keeps::Larger),
            ],
        };
        let merged = merge(FILE, &advice);
        assert_eq!(
            merged.text,
            "; ours\n[databases]\n# the shop\n; weir advise: why\nshop = host=10.0.0.5 dbname=store password='it''s = x' pool_size=12\n\"my db\" = host=h\n* = host=h\n\
             ; weir advise: why\nother = host=h pool_size=3 max_db_connections=9\n\n\
             [pgbouncer]\n;default_pool_size = 7\n; weir advise: because; was 20\n  default_pool_size= 5\nlisten_port = 6432 \n\
             ; weir advise: because\nmax_client_conn = 400\n; the end\n"
        );
        assert_eq!(
            merged.changes,
            [
                "shop: pool_size=12, was 100",
                "other: a line of its own, from that of *",
                "default_pool_size = 5, was 20",
                "max_client_conn = 400, new"
            ]
        );
        // Once more: nothing is left to change.
        let again = merge(&merged.text, &advice);
        assert_eq!((again.text, again.changes), (merged.text, Vec::new()));
    }

    #[test]
    fn ones_own_limits_stay() {
        let text = "[pgbouncer]\nmax_client_conn = 1000\nidle_transaction_timeout = 5\nquery_wait_timeout = 0\nserver_idle_timeout = 900\n";
        let advice = IniAdvice {
            databases: Vec::new(),
            settings: vec![
                setting("max_client_conn", "400", Keeps::Larger),
                setting("idle_transaction_timeout", "60", Keeps::AnyLimit),
                setting("query_wait_timeout", "20", Keeps::AnyLimit),
                setting("server_idle_timeout", "240", Keeps::Smaller),
            ],
        };
        let merged = merge(text, &advice);
        assert_eq!(
            merged.changes,
            [
                "query_wait_timeout = 20, was 0",
                "server_idle_timeout = 240, was 900"
            ]
        );
        assert_eq!(merged.notes.len(), 2);
        assert!(merged.text.contains("max_client_conn = 1000\n"));
    }

    #[test]
    fn what_leads_nowhere_or_is_for_sessions_is_only_noted() {
        let text = "[databases]\na = pool_mode=session pool_size=90\n[users]\nu = pool_size=3\n[pgbouncer]\n";
        let advice = IniAdvice {
            databases: vec![database("a", 4, None), database("b", 4, None)],
            settings: Vec::new(),
        };
        let merged = merge(text, &advice);
        assert_eq!(merged.text, text);
        assert_eq!(merged.notes.len(), 3, "{merged:?}");
    }

    #[test]
    fn the_comment_of_an_earlier_run_is_replaced_and_line_ends_are_kept() {
        let text = "[pgbouncer]\r\n; weir advise: earlier\r\ndefault_pool_size = 9\r\n";
        let advice = IniAdvice {
            databases: Vec::new(),
            settings: vec![
                setting("default_pool_size", "5", Keeps::Nothing),
                setting("query_wait_timeout", "20", Keeps::AnyLimit),
            ],
        };
        assert_eq!(
            merge(text, &advice).text,
            "[pgbouncer]\r\n; weir advise: because; was 9\r\ndefault_pool_size = 5\r\n; weir advise: because\r\nquery_wait_timeout = 20\r\n"
        );
        assert_eq!(
            merge("", &advice).text,
            "\n[pgbouncer]\n; weir advise: because\ndefault_pool_size = 5\n; weir advise: because\nquery_wait_timeout = 20\n"
        );
    }

    #[test]
    fn any_text_can_be_merged_into_and_keeps_its_lines() {
        let parts = [
            "[",
            "]",
            "=",
            ";",
            "#",
            "\"",
            "'",
            " ",
            "\t",
            "\n",
            "\r\n",
            "*",
            "%include x",
            "a",
            "\u{e9}",
            "[databases]\n",
            "[pgbouncer]\n",
            "default_pool_size",
            "shop",
            "pool_size",
            "dbname",
        ];
        let advice = IniAdvice {
            databases: vec![database("shop", 7, Some(8)), database("a", 5, None)],
            settings: vec![setting("default_pool_size", "5", Keeps::Nothing)],
        };
        let seed = rand::random();
        let mut random = StdRng::seed_from_u64(seed);
        for _ in 0..20_000 {
            let length = random.random_range(0..40);
            let text: String = (0..length)
                .map(|_| parts[random.random_range(0..parts.len())])
                .collect();
            let merged = merge(&text, &advice);
            let kept = text
                .lines()
                .filter(|line| merged.text.lines().any(|after| after == *line));
            let replaced = text.lines().count() - kept.count();
            assert!(
                replaced <= merged.changes.len(),
                "seed {seed}: {text:?} {merged:?}"
            );
        }
    }

    #[test]
    fn new_sections_quote_names() {
        let advice = IniAdvice {
            databases: vec![database("my \"db\"", 4, Some(9))],
            settings: vec![setting("pool_mode", "transaction", Keeps::Nothing)],
        };
        let text = sections(&advice, "host=h port=1");
        assert!(
            text.contains("\"my \"\"db\"\"\" = host=h port=1 pool_size=4 max_db_connections=9\n"),
            "{text}"
        );
        let file = File::read(&text);
        assert_eq!(file.entries(DATABASES)[0].key, "my \"db\"");
    }
}
