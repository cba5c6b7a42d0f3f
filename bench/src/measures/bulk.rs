//! Large transfers: CPU seconds of the pooler for each GB (10^9 bytes on the wire), and how much its memory grows.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::figures::Samples;
use crate::lab::{Lab, Values};
use crate::party::{Auth, Kind, Party, WEIR_EPOLL, WEIR_IO_URING};
use crate::postgres::DATABASE;
use crate::probe::{self, Expected};
use crate::session::Session;

const PARTIES: [Kind; 5] = [
    Kind::Haproxy,
    Kind::PgBouncer,
    Kind::PgBouncerBigBuffer,
    WEIR_IO_URING,
    WEIR_EPOLL,
];
/// A large row of a SELECT, and a line of COPY as an ordinary table has it, in bytes.
const ROW: usize = 1000;
const LINE: usize = 100;

#[derive(Clone, Copy)]
enum Transfer {
    Select,
    CopyOut,
    CopyIn,
    /// A client that stops reading for a while: nothing may pile up in the pooler.
    SlowSelect,
}

pub fn run(lab: &Lab, samples: &mut Samples) -> Result<()> {
    let bytes: u64 = lab.scale.pick(400_000_000, 20_000_000);
    prepare(lab, bytes)?;
    let parties = lab.start_all(&PARTIES, Auth::Trust, Transfer::Select.name(), samples);
    for transfer in [
        Transfer::Select,
        Transfer::CopyOut,
        Transfer::CopyIn,
        Transfer::SlowSelect,
    ] {
        lab.interleave(transfer.name(), &parties, samples, |party| {
            once(lab, party, transfer, bytes)
        });
    }
    Ok(())
}

fn prepare(lab: &Lab, bytes: u64) -> Result<()> {
    let mut session = lab.server.session(DATABASE)?;
    for (table, width) in [("wide", ROW), ("narrow", LINE)] {
        session.rows(&format!("DROP TABLE IF EXISTS {table}; CREATE UNLOGGED TABLE {table} (line text); ALTER TABLE {table} ALTER line SET STORAGE PLAIN"))?;
        session.rows(&format!(
            "INSERT INTO {table} SELECT repeat('x', {width}) FROM generate_series(1, {})",
            bytes / width as u64
        ))?;
        session.rows(&format!("VACUUM {table}"))?;
    }
    Ok(())
}

fn once(lab: &Lab, party: &Party, transfer: Transfer, bytes: u64) -> Result<Values> {
    let mut session = party.session()?;
    session.rows("SELECT 1")?;
    let Some(pid) = party.pid() else {
        bail!("a direct connection has no pooler")
    };
    probe::forget_peak(pid)?;
    let before = probe::resident(pid)?;
    let began = Instant::now();
    let work = || lab.cost(party, || transfer.carry_out(&mut session, bytes));
    let (moved, cost) = lab.watched(party, Expected::Exactly(1), work)?;
    let elapsed = began.elapsed().as_secs_f64();
    let grown = probe::peak_resident(pid)?.saturating_sub(before);
    let mut values = vec![
        ("grown_kib", grown as f64 / 1024.0),
        ("mb_per_second", moved as f64 / 1e6 / elapsed),
    ];
    values.extend(cost.map(|cost| ("cpu_s_per_gb", cost.cpu_seconds * 1e9 / moved as f64)));
    Ok(values)
}

impl Transfer {
    fn name(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::CopyOut => "COPY out",
            Self::CopyIn => "COPY in",
            Self::SlowSelect => "SELECT, slow reader",
        }
    }

    /// Returns the bytes that crossed the wire.
    fn carry_out(self, session: &mut Session, bytes: u64) -> Result<u64> {
        match self {
            Self::Select => receive(session, "SELECT line FROM wide", Duration::ZERO),
            Self::CopyOut => receive(session, "COPY narrow TO STDOUT", Duration::ZERO),
            Self::SlowSelect => {
                receive(session, "SELECT line FROM wide", Duration::from_millis(300))
            }
            Self::CopyIn => {
                // Nothing is stored: every round meets the same table.
                session.send_query("COPY narrow FROM STDIN WHERE false")?;
                session.drain(b"G", Duration::ZERO)?;
                let line = [&[b'x'; LINE - 1][..], b"\n"].concat();
                session.copy_in(&line, bytes)?;
                session.drain(b"Z", Duration::ZERO)?;
                Ok(bytes)
            }
        }
    }
}

fn receive(session: &mut Session, sql: &str, pause: Duration) -> Result<u64> {
    session.send_query(sql)?;
    session.drain(b"Z", pause)
}
