//! Runs PostgreSQL in a temporary folder until it is killed: `cargo run -p lab --example server -- [MAJOR]`.
//! Without a version it is the newest on this machine, or a fetched one.

use lab::postgres::{Error, Installation, Options};
use std::io::Read;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let installation = match std::env::args().nth(1) {
        Some(major) => Installation::obtain(major.parse()?)?,
        None => match Installation::find() {
            Err(Error::NotInstalled) => Installation::fetch(17)?,
            found => found?,
        },
    };
    let server = installation.start(&Options::default())?;
    println!("{}", server.connection_string("postgres", "postgres"));
    println!("{}", server.socket_dir().display());
    println!(
        "PostgreSQL {}; it ends with this process or with its input",
        server.version()
    );
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
