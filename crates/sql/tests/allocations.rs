//! A client that makes no session state pays no allocation for being looked at.

use sql::{LearntNames, Scanner};

#[test]
fn plain_queries_allocate_nothing() {
    let scanner = Scanner::new(&LearntNames::default()).expect("a scanner");
    for text in [
        "SELECT abalance FROM pgbench_accounts WHERE aid = 1;",
        "/* a comment */ (SELECT 1) UNION SELECT 2 -- end",
        "UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = $1",
        "insert into t (a, b) values (1, 'a; b''c')",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "COPY t FROM STDIN",
        "BEGIN",
        "END; ",
    ] {
        let info = allocation_counter::measure(|| {
            std::hint::black_box(scanner.suspicion(text.as_bytes()));
        });
        assert_eq!(info.count_total, 0, "{text}");
    }
}
