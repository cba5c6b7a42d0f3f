//! The advice as a text for the terminal.

use super::advice::{Advice, Finding, PoolAdvice, Topic, Weight};
use super::ini;
use super::observations::{Ended, Observations, Pooler};
use crate::report::{count, duration, plain};
use std::fmt::Write;

/// Columns of a terminal that everybody has.
const WIDTH: usize = 100;

/// The findings, the sizes, and what to do.
pub fn text(seen: &Observations, advice: &Advice) -> String {
    let mut text = heading(seen);
    let mut topic: Option<Topic> = None;
    for finding in &advice.findings {
        if topic != Some(finding.topic) {
            let _ = write!(text, "\n{}\n", finding.topic.title());
            topic = Some(finding.topic);
        }
        text.push_str(&one(finding));
    }
    text.push_str(&pools(&advice.pools));
    text.push_str(&changes(advice));
    text
}

/// The ini, for whoever has none to merge it into.
pub fn ini(seen: &Observations, advice: &Advice) -> String {
    let server = &seen.server;
    let place = match &seen.pooler {
        // Through a pooler the server's own address is not known.
        Pooler::None => format!("host={} port={}", server.host, server.port),
        _ => "host=SERVER".into(),
    };
    format!(
        "\nFor the ini (--apply-to FILE puts it into one):\n\n{}",
        ini::sections(&advice.ini, &place)
    )
}

fn heading(seen: &Observations) -> String {
    let watch = &seen.watch;
    let ended = match watch.ended {
        Ended::Interrupted => ", ended by Ctrl-C",
        _ => "",
    };
    let pooler = match &seen.pooler {
        Pooler::Open(pooler) => format!(" through {}", pooler.version),
        Pooler::Closed(_) => " through a pooler".into(),
        Pooler::None => String::new(),
    };
    format!(
        "PostgreSQL {} at {}{pooler}, watched for {}{ended}: {} looks.\n",
        seen.server.version,
        seen.server.address,
        duration(watch.time()),
        count(watch.looks),
    )
}

fn one(finding: &Finding) -> String {
    let mark = match finding.weight {
        Weight::Act => "!",
        Weight::Good | Weight::Plain => "*",
    };
    let mut lines = finding.text.lines();
    let first = wrapped(
        lines.next().unwrap_or_default(),
        &format!("  {mark} "),
        "    ",
    );
    let rest = lines.map(|line| wrapped(line, "    ", "      "));
    first + &rest.collect::<String>()
}

/// Lines of at most [`WIDTH`] characters, where the words are not longer.
fn wrapped(text: &str, first: &str, next: &str) -> String {
    let mut done = String::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split(' ') {
        let blank = usize::from(!empty);
        if !empty && line.chars().count() + blank + word.chars().count() > WIDTH {
            done.push_str(&line);
            done.push('\n');
            line = next.to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    done + &line + "\n"
}

fn pools(pools: &[PoolAdvice]) -> String {
    if pools.is_empty() {
        return String::new();
    }
    let widest = pools
        .iter()
        .map(|pool| pool.name.to_string().chars().count());
    let width = widest.max().unwrap_or(0).max("pool".len());
    let mut text = String::from("\nPool sizes in transaction mode\n");
    let _ = writeln!(
        text,
        "    {:width$}  {:>9}  {:>7}   wanted at the same time: {:>7}  {:>5}  {:>5}",
        "pool", "pool_size", "reserve", "mean", "95 %", "most"
    );
    for pool in pools {
        let _ = writeln!(
            text,
            "    {:width$}  {:>9}  {:>7}                             {:>7}  {:>5}  {:>5}",
            pool.name.to_string(),
            pool.size,
            pool.reserve,
            plain(pool.mean),
            pool.p95,
            pool.max
        );
    }
    text
}

fn changes(advice: &Advice) -> String {
    if advice.changes.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nTo do on the server (nothing was changed there)\n");
    for change in &advice.changes {
        let _ = writeln!(text, "    {}", change.what);
        text.push_str(&wrapped(&change.why, "        ", "        "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words_and_lists_are_indented() {
        let finding = Finding::new(
            Topic::Idle,
            Weight::Act,
            format!("{} end:\n- one\n- two", "word ".repeat(30).trim()),
        );
        let text = one(&finding);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("  ! word") && lines[0].len() <= WIDTH);
        assert!(lines[1].starts_with("    word") && lines[1].ends_with("end:"));
        assert_eq!(lines[2..], ["    - one", "    - two"]);
    }
}
