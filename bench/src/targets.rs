//! What Weir has to reach, and how each figure is made from the medians.

use crate::figures::Figures;

const PGBOUNCER: &str = "pgbouncer";
const IO_URING: &str = "weir io_uring";
const EPOLL: &str = "weir epoll";

#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    pub fn met(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::AtLeast(bound) => figure >= bound,
        }
    }
}

/// One promise, for one reactor.
pub struct Target {
    /// Names the hand-written reason in `bench/notes.md`.
    pub key: String,
    pub text: &'static str,
    pub party: &'static str,
    pub unit: &'static str,
    pub bound: Bound,
    pub figure: Option<f64>,
}

/// Reads medians of the parties of one target.
struct Medians<'a> {
    figures: &'a Figures,
    weir: &'static str,
}

impl Medians<'_> {
    fn of(&self, party: &str, measure: &str, variant: &str, metric: &str) -> Option<f64> {
        self.figures.median(measure, variant, party, metric)
    }

    fn weir(&self, measure: &str, variant: &str, metric: &str) -> Option<f64> {
        self.of(self.weir, measure, variant, metric)
    }

    /// Weir's figure as a share of PgBouncer's.
    fn ratio(&self, measure: &str, variant: &str, metric: &str) -> Option<f64> {
        Some(self.weir(measure, variant, metric)? / self.of(PGBOUNCER, measure, variant, metric)?)
    }

    fn added_latency(&self, party: &str) -> Option<f64> {
        Some(
            self.of(party, "single", "simple", "latency_us")?
                - self.of("direct", "single", "simple", "latency_us")?,
        )
    }

    /// Counted by the processor, or where it does not let itself be asked, by an emulated one or by valgrind.
    fn instructions(&self, protocol: &str, metric: &str) -> Option<f64> {
        let measures = [protocol, "instructions", "user-instructions"];
        measures
            .into_iter()
            .find_map(|measure| self.weir(measure, protocol, metric))
    }

    fn workers(&self, workers: u32, metric: &str) -> Option<f64> {
        let many = format!("{}, {workers} workers", self.weir);
        Some(
            self.of(&many, "workers", "simple", metric)?
                / self.of(self.weir, "workers", "simple", metric)?,
        )
    }

    fn instructions_with_workers(&self, workers: u32) -> Option<f64> {
        let many = format!("{}, {workers} workers", self.weir);
        let ratio = |measure| {
            Some(
                self.of(&many, measure, "simple", "all_instructions")?
                    / self.of(self.weir, measure, "simple", "all_instructions")?,
            )
        };
        ratio("workers").or_else(|| ratio("instructions"))
    }

    /// How the time for each client grows from 1,000 to 10,000 clients.
    fn growth(&self, auth: &str) -> Option<f64> {
        let each =
            |count: f64| Some(self.weir("storm", &format!("{auth}, {count}"), "wall_s")? / count);
        Some(each(10_000.0)? / each(1000.0)?)
    }

    fn tail_against_direct(&self) -> Option<f64> {
        Some(
            self.weir("crowd", "simple", "p99_by_p50")?
                / self.of("direct", "crowd", "simple", "p99_by_p50")?,
        )
    }

    fn beside_idle(&self) -> Option<f64> {
        let tps = |variant| self.weir("idle-crowd", variant, "tps");
        Some(tps("beside idle clients")? / tps("alone")?)
    }
}

/// Every promise with what was measured, in the order of the report.
pub fn all(figures: &Figures) -> Vec<Target> {
    let each = [(IO_URING, 0.75, 0.6), (EPOLL, 1.0, 0.75)];
    let mut targets: Vec<Target> = each
        .into_iter()
        .flat_map(|(weir, simple, prepared)| of_transactions(figures, weir, simple, prepared))
        .collect();
    for weir in [IO_URING, EPOLL] {
        targets.extend(of_connections(figures, weir));
        targets.extend(of_volume(figures, weir));
    }
    // Both reactors of one promise stand side by side.
    let order: Vec<&str> = targets.iter().map(|target| target.text).collect();
    let mut order_once: Vec<&str> = Vec::new();
    order.into_iter().for_each(|text| {
        if !order_once.contains(&text) {
            order_once.push(text)
        }
    });
    targets.sort_by_key(|target| order_once.iter().position(|text| *text == target.text));
    targets
}

/// Collects the targets of one reactor.
struct Sheet<'a> {
    medians: Medians<'a>,
    targets: Vec<Target>,
}

impl<'a> Sheet<'a> {
    fn new(figures: &'a Figures, weir: &'static str) -> Self {
        Self {
            medians: Medians { figures, weir },
            targets: Vec::new(),
        }
    }

    fn add(
        &mut self,
        key: &str,
        text: &'static str,
        unit: &'static str,
        bound: Bound,
        figure: impl Fn(&Medians) -> Option<f64>,
    ) {
        let party = self.medians.weir;
        let key = format!("{key}/{}", party.trim_start_matches("weir "));
        self.targets.push(Target {
            key,
            text,
            party,
            unit,
            bound,
            figure: figure(&self.medians),
        });
    }
}

fn of_transactions(
    figures: &Figures,
    weir: &'static str,
    simple: f64,
    prepared: f64,
) -> Vec<Target> {
    use Bound::AtMost;
    let mut sheet = Sheet::new(figures, weir);
    sheet.add(
        "simple",
        "CPU time per transaction, simple protocol, of PgBouncer's",
        "",
        AtMost(simple),
        |m| m.ratio("simple", "simple", "cpu_us"),
    );
    sheet.add(
        "prepared",
        "CPU time per transaction, `-M prepared`, of PgBouncer's",
        "",
        AtMost(prepared),
        |m| m.ratio("prepared", "prepared", "cpu_us"),
    );
    sheet.add(
        "instructions-user",
        "user instructions per transaction, simple",
        "",
        AtMost(3500.0),
        |m| m.instructions("simple", "user_instructions"),
    );
    sheet.add(
        "instructions-simple",
        "all instructions per transaction, simple",
        "",
        AtMost(37_000.0),
        |m| m.instructions("simple", "all_instructions"),
    );
    sheet.add(
        "instructions-prepared",
        "all instructions per transaction, prepared",
        "",
        AtMost(38_000.0),
        |m| m.instructions("prepared", "all_instructions"),
    );
    sheet.add(
        "single",
        "latency added to one client, of what PgBouncer adds",
        "",
        AtMost(1.0),
        |m| Some(m.added_latency(m.weir)? / m.added_latency(PGBOUNCER)?),
    );
    for (key, variant, text) in OWN_STATE {
        sheet.add(key, text, "", AtMost(1.5), |m| {
            let cpu = |variant| m.weir("own-state", variant, "cpu_us");
            Some(cpu(variant)? / cpu("nothing of their own")?)
        });
    }
    sheet.targets
}

const OWN_STATE: [(&str, &str, &str); 3] = [
    (
        "own-tenant",
        "own app.tenant",
        "CPU time of clients with an app.tenant each, of that without",
    ),
    (
        "own-search-path",
        "own search_path",
        "CPU time of clients with a search_path each, of that without",
    ),
    (
        "own-application-name",
        "own application_name",
        "CPU time of clients with an application_name each, of that without",
    ),
];

fn of_connections(figures: &Figures, weir: &'static str) -> Vec<Target> {
    use Bound::{AtLeast, AtMost};
    let mut sheet = Sheet::new(figures, weir);
    sheet.add(
        "crowd",
        "throughput of 256 clients on a pool of 20, of PgBouncer's",
        "",
        AtLeast(1.0),
        |m| m.ratio("crowd", "simple", "tps"),
    );
    sheet.add(
        "crowd-tail",
        "their p99 / p50, of that of 20 direct clients",
        "",
        AtMost(1.5),
        |m| m.tail_against_direct(),
    );
    sheet.add(
        "connect-trust",
        "connect, one query, close, trust: CPU time, of PgBouncer's",
        "",
        AtMost(1.0),
        |m| m.ratio("connect", "trust, one at a time", "cpu_us"),
    );
    sheet.add(
        "connect-scram",
        "the same with SCRAM",
        "",
        AtMost(1.0),
        |m| m.ratio("connect", "scram-sha-256, one at a time", "cpu_us"),
    );
    sheet.add(
        "storm-trust",
        "10,000 clients opened, trust: time, of PgBouncer's",
        "",
        AtMost(1.0),
        |m| m.ratio("storm", "trust, 10000", "wall_s"),
    );
    sheet.add(
        "storm-scram",
        "10,000 clients opened and authenticated, SCRAM: time, of PgBouncer's",
        "",
        AtMost(1.0),
        |m| m.ratio("storm", "scram-sha-256, 10000", "wall_s"),
    );
    sheet.add(
        "storm-linear",
        "time for each of 10,000 clients, of that for each of 1,000 (SCRAM)",
        "",
        AtMost(1.2),
        |m| m.growth("scram-sha-256"),
    );
    sheet.add(
        "idle-memory",
        "memory for each idle client that ran a query",
        " bytes",
        AtMost(700.0),
        |m| m.weir("idle-memory", "ran a query", "bytes"),
    );
    sheet.add(
        "idle-crowd",
        "throughput of 32 clients beside 100,000 idle ones, of theirs alone",
        "",
        AtLeast(0.95),
        |m| m.beside_idle(),
    );
    sheet.targets
}

fn of_volume(figures: &Figures, weir: &'static str) -> Vec<Target> {
    use Bound::{AtLeast, AtMost};
    let mut sheet = Sheet::new(figures, weir);
    sheet.add(
        "select",
        "CPU seconds per GB: SELECT",
        " s",
        AtMost(1.8),
        |m| m.weir("bulk", "SELECT", "cpu_s_per_gb"),
    );
    sheet.add(
        "copy-out",
        "CPU seconds per GB: COPY out",
        " s",
        AtMost(2.3),
        |m| m.weir("bulk", "COPY out", "cpu_s_per_gb"),
    );
    sheet.add(
        "copy-in",
        "CPU seconds per GB: COPY in",
        " s",
        AtMost(0.6),
        |m| m.weir("bulk", "COPY in", "cpu_s_per_gb"),
    );
    sheet.add(
        "bulk-memory",
        "memory added by a large result and a slow reader",
        " KiB",
        AtMost(1024.0),
        |m| m.weir("bulk", "SELECT, slow reader", "grown_kib"),
    );
    sheet.add(
        "workers-2",
        "throughput with 2 workers, of that with one",
        "",
        AtLeast(1.0),
        |m| m.workers(2, "tps"),
    );
    sheet.add(
        "workers-4",
        "throughput with 4 workers, of that with one",
        "",
        AtLeast(1.0),
        |m| m.workers(4, "tps"),
    );
    sheet.add(
        "workers-2-instructions",
        "instructions per transaction with 2 workers, of one's",
        "",
        AtMost(1.1),
        |m| m.instructions_with_workers(2),
    );
    sheet.add(
        "workers-4-instructions",
        "instructions per transaction with 4 workers, of one's",
        "",
        AtMost(1.1),
        |m| m.instructions_with_workers(4),
    );
    sheet.targets
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::{Run, Samples};

    fn figures() -> Figures {
        let mut samples = Samples::default();
        samples.add("simple", &PGBOUNCER, "cpu_us", 40.0);
        samples.add("simple", &IO_URING, "cpu_us", 30.0);
        samples.add("simple", &EPOLL, "cpu_us", 44.0);
        let run = Run {
            measure: "simple".into(),
            at: String::new(),
            command: String::new(),
            machine: String::new(),
            versions: vec![],
            rounds: 1,
            quick: true,
            load: (0.0, 0.0),
        };
        let mut figures = Figures::default();
        figures.replace(run, samples);
        figures
    }

    #[test]
    fn a_ratio_is_of_pgbouncers() {
        let targets = all(&figures());
        let of = |key: &str| {
            targets
                .iter()
                .find(|target| target.key == key)
                .map(|target| {
                    (
                        target.figure,
                        target.figure.map(|figure| target.bound.met(figure)),
                    )
                })
        };
        assert_eq!(of("simple/io_uring"), Some((Some(0.75), Some(true))));
        assert_eq!(of("simple/epoll"), Some((Some(1.1), Some(false))));
        assert_eq!(of("prepared/epoll"), Some((None, None)));
    }

    #[test]
    fn both_reactors_of_a_promise_stand_together_and_keys_are_unique() {
        let targets = all(&figures());
        assert!(targets.chunks(2).all(|pair| pair[0].text == pair[1].text));
        let keys: std::collections::HashSet<_> = targets.iter().map(|target| &target.key).collect();
        assert_eq!(keys.len(), targets.len());
    }
}
