//! Runs pgbench and reads its summary.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::postgres::DATABASE;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    Simple,
    Extended,
    Prepared,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Extended => "extended",
            Self::Prepared => "prepared",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Length {
    Seconds(u32),
    TransactionsEach(u32),
}

/// What each client sets once, to a value of its own, before its first transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own {
    Nothing,
    /// A custom parameter.
    Tenant,
    /// A parameter that is not reported (before PostgreSQL 18).
    SearchPath,
    /// A reported parameter.
    ApplicationName,
}

impl Own {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing of their own",
            Self::Tenant => "own app.tenant",
            Self::SearchPath => "own search_path",
            Self::ApplicationName => "own application_name",
        }
    }

    /// The transaction of `pgbench -S`, behind the client's own SET.
    fn script(self) -> String {
        let set = match self {
            Self::Nothing => "",
            Self::Tenant => "SET app.tenant = 'tenant :client_id';\n",
            Self::SearchPath => "SET search_path = public, tenant_:client_id;\n",
            Self::ApplicationName => "SET application_name = 'client :client_id';\n",
        };
        format!(
            "\\if :ready\n\\else\n{set}\\set ready 1\n\\endif\n\
             \\set aid random(1, 100000)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
        )
    }
}

/// One run of select-only transactions.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// `None`: `pgbench -S` as it is.
    pub own: Option<Own>,
    pub protocol: Protocol,
    pub clients: u32,
    pub length: Length,
}

pub struct Outcome {
    pub transactions: f64,
    pub per_second: f64,
    pub latency_us: f64,
}

impl Load {
    pub fn run(self, program: &Path, address: SocketAddr, user: &str) -> Result<Outcome> {
        let (flag, amount) = match self.length {
            Length::Seconds(seconds) => ("-T", seconds),
            Length::TransactionsEach(count) => ("-t", count),
        };
        let mut script = tempfile::NamedTempFile::new()?;
        let work = match self.own {
            None => vec!["-S".to_owned()],
            Some(own) => {
                script.write_all(own.script().as_bytes())?;
                let path = script.path().display().to_string();
                vec!["-D".to_owned(), "ready=0".to_owned(), "-f".to_owned(), path]
            }
        };
        let output = Command::new(program)
            .env("PGSSLMODE", "disable")
            .env("PGGSSENCMODE", "disable")
            .args(["-n", "-j", "1", "-M", self.protocol.name()])
            .args(work)
            .args(["-c", &self.clients.to_string(), flag, &amount.to_string()])
            .args([
                "-h",
                &address.ip().to_string(),
                "-p",
                &address.port().to_string(),
                "-U",
                user,
                DATABASE,
            ])
            .output()
            .context("running pgbench")?;
        let (text, errors) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        if !output.status.success() {
            bail!("pgbench failed: {}", errors.trim());
        }
        parse(&text).with_context(|| format!("pgbench said: {text}{errors}"))
    }
}

fn parse(text: &str) -> Option<Outcome> {
    let number = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace()
            .next()?
            .split('/')
            .next()?
            .parse::<f64>()
            .ok()
    };
    Some(Outcome {
        transactions: number("number of transactions actually processed: ")?,
        per_second: number("tps = ")?,
        latency_us: number("latency average = ")? * 1000.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_read() {
        let text = "transaction type: <builtin: select only>\nnumber of transactions actually processed: 12345\n\
                    number of failed transactions: 0 (0.000%)\nlatency average = 1.250 ms\n\
                    initial connection time = 9.1 ms\ntps = 25600.5 (without initial connection time)\n";
        let outcome = parse(text).expect("a summary");
        assert_eq!(
            (outcome.transactions, outcome.per_second, outcome.latency_us),
            (12345.0, 25600.5, 1250.0)
        );
        assert!(parse("pgbench: error").is_none());
    }
}
