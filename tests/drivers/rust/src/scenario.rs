//! What the scenarios of both drivers have in common: where Weir is, many clients at once, the count.

use anyhow::{Result, ensure};
use std::env::var;
use std::fmt::Debug;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

pub fn pool_size() -> usize {
    let size = var("WEIR_POOL_SIZE")
        .ok()
        .and_then(|size| size.parse().ok());
    size.expect("WEIR_POOL_SIZE is set")
}

/// More clients than the pooler has server connections.
pub fn clients() -> usize {
    pool_size() * 2 + 2
}

/// Runs `work(client)` for all clients at once; the first error counts.
pub async fn by_many<F: Future<Output = Result<()>>>(work: impl Fn(i32) -> F) -> Result<()> {
    let all = (0..clients()).map(|client| work(client as i32));
    futures_util::future::try_join_all(all).await.map(drop)
}

pub fn equal<T: PartialEq + Debug>(found: T, expected: T) -> Result<()> {
    ensure!(found == expected, "found {found:?}, expected {expected:?}");
    Ok(())
}

#[derive(Default)]
pub struct Count {
    passed: usize,
    failed: usize,
}

impl Count {
    pub async fn scenario(&mut self, name: &str, work: impl Future<Output = Result<()>>) {
        let outcome = tokio::time::timeout(Duration::from_secs(60), work).await;
        match outcome {
            Ok(Ok(())) => self.passed += 1,
            Ok(Err(error)) => self.fail(name, &format!("{error:#}")),
            Err(_) => self.fail(name, "not done after a minute"),
        }
    }

    fn fail(&mut self, name: &str, why: &str) {
        println!("FAILED: {name}: {why}");
        self.failed += 1;
    }

    pub fn close(self) -> ExitCode {
        println!("{} passed, {} failed", self.passed, self.failed);
        ExitCode::from(u8::from(self.failed > 0))
    }
}
