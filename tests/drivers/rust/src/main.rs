//! tokio-postgres and sqlx in transaction mode: what each does when many clients share few server connections.

mod scenario;
mod sqlx_driver;
mod tokio_postgres_driver;

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let mut count = scenario::Count::default();
    tokio_postgres_driver::run(&mut count).await;
    sqlx_driver::run(&mut count).await;
    count.close()
}
