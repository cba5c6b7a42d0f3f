//! Figures that others have published, to stand beside those that the lab measures. Absolute numbers come from other machines: shapes and
//! ratios are what can be compared.

use serde::{Deserialize, Serialize};

/// A published table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// Who measured, with what.
    pub source: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// What was concluded.
    pub finding: String,
}

fn table<const N: usize>(
    source: &str,
    columns: [&str; N],
    rows: &[[&str; N]],
    finding: &str,
) -> Published {
    let words = |row: &[&str; N]| row.iter().map(|&word| word.to_owned()).collect();
    Published {
        source: source.into(),
        columns: words(&columns),
        rows: rows.iter().map(words).collect(),
        finding: finding.into(),
    }
}

/// Idle connections slow the active ones.
pub fn idle() -> Vec<Published> {
    vec![
        table(
            "A. Freund, 2020: PostgreSQL 12, two Xeon Gold 5215, read-only pgbench beside idle connections; transactions per second",
            ["idle connections", "1 active", "48 active"],
            &[
                ["0", "33,457", "1,032,435"],
                ["100", "33,705", "960,847"],
                ["1,000", "30,558", "902,109"],
                ["2,500", "26,075", "759,723"],
                ["5,000", "23,284", "702,680"],
                ["10,000", "14,496", "521,558"],
            ],
            "Building a snapshot walked every connection: at 10,000 idle ones 43 % of the throughput was left for one client, 51 % for 48. PostgreSQL 14 removed most of this.",
        ),
        table(
            "The same, the others mostly idle: each sleeps 100 ms, then sends one query, in a loop",
            ["less active connections", "1 active", "48 active"],
            &[
                ["0", "33,773", "1,040,616"],
                ["100", "29,074", "953,755"],
                ["1,000", "25,327", "759,366"],
                ["2,500", "19,752", "733,000"],
                ["5,000", "9,807", "636,057"],
                ["10,000", "6,049", "416,819"],
            ],
            "The less active connections also use the processor: 10,000 of them ask up to 100,000 queries a second.",
        ),
        table(
            "EDB: N connections that each ran SELECT 1 and are held, beside pgbench --client=10 --transactions=5000",
            ["finding"],
            &[[
                "throughput falls as N grows; rule of thumb: max_connections = 4 x cores, and not above a few hundred",
            ]],
            "",
        ),
    ]
}

/// Latency makes clients idle.
pub fn think() -> Vec<Published> {
    vec![table(
        "A. Freund, 2020: read-only pgbench, everything in memory",
        ["delay per query", "clients at peak throughput"],
        &[
            ["none, same machine", "about 48"],
            ["10 GbE network", "about 500"],
            ["1 ms network and 1 ms in the client", "about 3,000"],
        ],
        "The longer a client is away between queries, the more clients it takes to keep the server busy, and the more of their connections are idle at any moment.",
    )]
}

/// Catalogue caches grow with the relations touched.
pub fn bloat() -> Vec<Published> {
    vec![table(
        "A. Freund, 2020: 100,000 tables (id serial primary key, data1 int, data2 text, data3 json)",
        ["one server connection", "CacheMemoryContext", "index info"],
        &[
            ["new", "512 kB", ""],
            [
                "after touching all tables",
                "593 MB",
                "98 MB in 100,084 contexts",
            ],
        ],
        "About 7 kB per table, kept until the connection ends. Known workaround: close server connections after an age. A connection's own constant memory, with huge pages, was below 2 MiB.",
    )]
}

/// Memory of connections.
pub fn memory() -> Vec<Published> {
    vec![table(
        "A book's chapter on the overhead of connections: resident memory of all server processes",
        ["idle connections", "resident memory"],
        &[
            ["50", "1.2 GB"],
            ["100", "2.8 GB"],
            ["200", "6.1 GB"],
            ["500", "16.2 GB"],
        ],
        "24 to 32 MB each: resident memory counts shared pages once for every process that has touched them. Proportional memory (PSS) counts them once in all.",
    )]
}

/// Opening many connections.
pub fn connect() -> Vec<Published> {
    vec![
        table(
            "pgsql-hackers, 2025: pgbench's initial connection time, REL_16",
            ["clients", "ms"],
            &[
                ["1,024", "435"],
                ["2,048", "1,062"],
                ["4,096", "3,284"],
                ["8,192", "11,617"],
                ["16,384", "43,391"],
            ],
            "Fit given: 0.0002 x clients^2 ms, so an exponent of 2 for many clients.",
        ),
        table(
            "pgsql-hackers, 2026: the same in sequence without a restart, ms",
            [
                "clients",
                "first run",
                "after warm-up",
                "patched, first",
                "patched, warm",
                "huge pages",
            ],
            &[
                ["512", "480", "500", "470", "215", "420"],
                ["1,024", "920", "1,000", "900", "920", "800"],
                ["2,048", "1,780", "2,240", "1,760", "1,800", "1,530"],
                ["4,096", "3,570", "6,140", "3,450", "3,740", "3,070"],
                ["8,192", "7,440", "18,840", "7,440", "8,100", "6,230"],
            ],
            "An exponent of about 1 at first, and up to 1.6 after warm-up; with huge pages 1.",
        ),
        table(
            "A book's chapter on the overhead of connections: 1,000 queries one after another",
            ["how", "seconds"],
            &[["a connection each", "12.4"], ["from a pool", "4.5"]],
            "2.8 times.",
        ),
    ]
}

/// A pooler in front of TPC-C.
pub fn poolsize() -> Vec<Published> {
    vec![table(
        "Percona: sysbench-tpcc, 10 tables, scale 100, 56 CPUs, PgBouncer 1.8.1 in transaction mode; clients 56, 150, 300, 600; pools of 14, 56, 150, 300, 600",
        ["clients", "finding"],
        &[
            [
                "56",
                "direct connections reached 2.5 times the throughput of the pooler: one thread, pure overhead at that scale",
            ],
            [
                "150 and more",
                "the pooler held its throughput while direct connections fell",
            ],
            [
                "any",
                "pools of a quarter of the CPUs up to the number of CPUs were nearly equal; a pool of 600 was no better than no pooler",
            ],
        ],
        "",
    )]
}

/// Cost per transaction.
pub fn overhead() -> Vec<Published> {
    vec![table(
        "A book's chapter on the overhead of transactions",
        ["transaction", "overhead"],
        &[["read-write", "0.08 ms"], ["read-only", "0.03 ms"]],
        "",
    )]
}

/// Readers and writers.
pub fn readers_writers() -> Vec<Published> {
    vec![table(
        "A book's chapter on the overhead of connections: 200 readers (a query every 100 ms) and 10 writers (a batch every 5 s)",
        ["", "direct", "transaction pool of 20"],
        &[
            ["server connections", "210", "20"],
            ["memory", "6.3 GB", "0.6 GB"],
            ["P50", "4.2 ms", "4.0 ms"],
            ["P99", "18.7 ms", "12.1 ms"],
            ["context switches per second", "14,200", "2,100"],
            ["mean wait for a server connection", "", "0.3 ms"],
        ],
        "",
    )]
}
