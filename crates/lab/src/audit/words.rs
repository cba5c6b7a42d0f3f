//! The audit as its user reads it.

use super::verdict::Cost;
use super::{Application, Audit, Costly};
use std::fmt::Write;

/// Statements that are shown for one application and cost.
const SHOWN_MAX: usize = 12;
/// Characters of a statement that are shown.
const TEXT_SHOWN: usize = 100;

const COSTS: [(Cost, &str); 3] = [
    (
        Cost::PinForGood,
        "keep the client on one server connection until it leaves",
    ),
    (
        Cost::PinWhileItLasts,
        "keep the client on one server connection while the state lasts",
    ),
    (
        Cost::Census,
        "cost one short query after their transaction (a census)",
    ),
];

/// Everything, for a terminal.
pub fn text(audit: &Audit) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "Looked at:");
    for place in &audit.looked {
        let _ = writeln!(out, "    {place}");
    }
    for (name, application) in &audit.applications {
        say_application(&mut out, name, application);
    }
    say_sum(&mut out, audit);
    out
}

fn say_application(out: &mut String, name: &str, application: &Application) {
    let name = if name.is_empty() {
        "(no application_name)"
    } else {
        name
    };
    let costly: u64 = application.costly.values().map(|it| it.times).sum();
    let _ = writeln!(
        out,
        "\n{name}: {costly} of {} statements cost something in a transaction pool",
        application.statements
    );
    for (cost, what) in COSTS {
        let mut here: Vec<(&String, &Costly)> = application
            .costly
            .iter()
            .filter(|(_, it)| it.verdict.cost() == Some(cost))
            .collect();
        if here.is_empty() {
            continue;
        }
        here.sort_by_key(|(_, it)| std::cmp::Reverse(it.times));
        let _ = writeln!(out, "  These {what}:");
        here.iter()
            .take(SHOWN_MAX)
            .for_each(|(text, costly)| say_statement(out, text, costly));
        if here.len() > SHOWN_MAX {
            let _ = writeln!(out, "    and {} more", here.len() - SHOWN_MAX);
        }
    }
}

fn say_statement(out: &mut String, text: &str, costly: &Costly) {
    let front: String = text.chars().take(TEXT_SHOWN).collect();
    let more = if front.len() < text.len() { " ..." } else { "" };
    let _ = writeln!(out, "    {:>7} x  {front}{more}", costly.times);
    for reason in &costly.verdict.reasons {
        let _ = writeln!(out, "               {}", reason.what);
        let _ = writeln!(out, "               change: {}", reason.change);
    }
    if !costly.verdict.through.is_empty() {
        let _ = writeln!(
            out,
            "               through: {}",
            costly.verdict.through.join(", ")
        );
    }
}

fn say_sum(out: &mut String, audit: &Audit) {
    let all = audit.applications.values();
    let statements: u64 = all.clone().map(|it| it.statements).sum();
    let of = |cost: Option<Cost>| -> u64 {
        all.clone()
            .flat_map(|it| it.costly.values())
            .filter(|it| it.verdict.cost() == cost)
            .map(|it| it.times)
            .sum()
    };
    let pinning = of(Some(Cost::PinForGood)) + of(Some(Cost::PinWhileItLasts));
    let census = of(Some(Cost::Census));
    let _ = writeln!(
        out,
        "\nOf {statements} statements {} cost nothing, {census} a census, {pinning} may pin.",
        statements - pinning - census
    );
    if pinning > 0 {
        let _ = writeln!(
            out,
            "Clients that pin keep a server connection each: see max_pinned and pin_timeout, or give them a pool of their own."
        );
    }
}
