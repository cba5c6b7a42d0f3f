//! Runs a command with Weir, and PostgreSQL behind it, in libpq's environment variables: `behind_weir psql -c 'SHOW server_version'`.
//! Clients and server connections log in by SCRAM; transaction mode; a pool smaller than what a driver's own pool opens.
//!
//! A file `server_of` beside the program names another program whose major version the server shall have: pg_dump reads no newer server.

use lab::postgres::{Options, SUPPORTED};
use std::path::Path;
use std::process::{Command, ExitCode};
use testkit::{Ini, Postgres, Role, Weir};

const POOL_SIZE: u32 = 5;
/// Lines of Weir's log after a failure: what the command says of it must not be lost above them.
const LOG_SHOWN: usize = 20;

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments
        .next()
        .ok_or("usage: behind_weir PROGRAM [ARGUMENT...]")?;
    let options = Options::default().setting("max_prepared_transactions", "20");
    let postgres = Postgres::start_with(major(Path::new(&program))?, options);
    let ini = Ini::in_front_of(&postgres)
        .set("auth_type", "scram-sha-256")
        .set("default_pool_size", POOL_SIZE);
    let weir = Weir::start(&ini);
    let status = Command::new(program)
        .args(arguments)
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", weir.port().to_string())
        .env("PGUSER", Role::Scram.name())
        .env("PGPASSWORD", Role::Scram.password())
        .env("PGDATABASE", Postgres::DATABASE)
        .env("WEIR_DIRECT_PORT", postgres.port().to_string())
        .env("WEIR_POOL_SIZE", POOL_SIZE.to_string())
        .status()?;
    if status.success() {
        return Ok(ExitCode::SUCCESS);
    }
    let log = weir.log();
    let before = log.lines().count().saturating_sub(LOG_SHOWN);
    eprintln!("{status}; the end of weir's log:");
    log.lines()
        .skip(before)
        .for_each(|line| eprintln!("{line}"));
    Ok(ExitCode::FAILURE)
}

/// The server's version for `program`, as its file `server_of` has it.
fn major(program: &Path) -> Result<u32, Box<dyn std::error::Error>> {
    let Ok(other) = std::fs::read_to_string(program.with_file_name("server_of")) else {
        return Ok(Postgres::USUAL_MAJOR);
    };
    let said = Command::new(other.trim()).arg("--version").output()?;
    let said = String::from_utf8(said.stdout)?;
    let digits = said
        .split(|each: char| !each.is_ascii_digit())
        .find(|digits| !digits.is_empty());
    let major: u32 = digits.ok_or("no version")?.parse()?;
    if SUPPORTED.contains(&major) {
        return Ok(major);
    }
    Err(format!("no server of version {major}").into())
}
