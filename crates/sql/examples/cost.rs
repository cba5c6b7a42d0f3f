//! What a look at a text costs: `cargo run --release -p sql --example cost`; under callgrind with one text's number and a count of calls.

use sql::{LearntNames, Scanner, Suspicion};
use std::hint::black_box;
use std::time::Instant;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let only: Option<usize> = arguments.next().and_then(|it| it.parse().ok());
    let calls: u32 = arguments
        .next()
        .and_then(|it| it.parse().ok())
        .unwrap_or(1_000_000);
    for learnt in [0, 1000] {
        let scanner = scanner(learnt);
        for (index, (name, text)) in texts().iter().enumerate() {
            if only.is_none_or(|it| it == index) {
                let ns = measure(&scanner, text, calls);
                println!("{name}, {} bytes, {learnt} names: {ns:.1} ns", text.len());
            }
        }
        if only.is_some() {
            break;
        }
    }
}

fn scanner(names: usize) -> Scanner {
    let mut learnt = LearntNames::default();
    for name in 0..names {
        learnt.insert(
            format!("audit_{name}_changes").as_bytes(),
            Suspicion::OPAQUE,
        );
    }
    Scanner::new(&learnt).expect("a scanner")
}

fn texts() -> [(&'static str, String); 4] {
    let columns: Vec<String> = (0..60)
        .map(|i| format!("o.column_{i} AS \"alias_{i}\""))
        .collect();
    let long = format!(
        "SELECT {} FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.created_at > '2024-01-01' AND c.state IN ($1, $2) ORDER BY o.id LIMIT 50",
        columns.join(", ")
    );
    [
        (
            "pgbench -S",
            "SELECT abalance FROM pgbench_accounts WHERE aid = 123456;".into(),
        ),
        ("begin", "BEGIN".into()),
        ("long query", long.clone()),
        ("two statements", format!("SELECT 1; {long}")),
    ]
}

fn measure(scanner: &Scanner, text: &str, calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(scanner.suspicion(black_box(text.as_bytes())));
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}
