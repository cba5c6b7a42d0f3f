//! From `pgbouncer.ini` to one decided, immutable [`Config`].
//!
//! Reads the configuration file and what it includes, nothing else: no environment, no network, not `auth_file` (whose path it gives).
//! [`Config::load`] finds every problem of a file at once, each with its line. A reload makes a new `Config`; none is ever changed.
//! Called by the program (start, `weir check`, `RELOAD`, `SET`, `SHOW CONFIG`) and by nobody else.

mod check;
mod config;
mod database;
pub mod docs;
mod errors;
mod general;
mod ini;
mod parameters;
mod peer;
mod pool_settings;
mod user;
mod value;

pub use config::{Config, ConfigRow, Loaded};
pub use database::{Address, Database, Host, Password, is_console};
pub use errors::{Error, Errors, Place, Problem, SettingError};
pub use general::{Changeable, General, Setting, Status, catalogue, setting};
pub use peer::Peer;
pub use pool_settings::PoolSettings;
pub use user::User;
pub use value::{
    AuthType, BadValue, ByteSize, CensusPolicy, CheckQuery, FileMode, LoadBalanceHosts, LogFormat,
    PinPolicy, PoolMode, Reactor, SslMode, SyslogFacility, UnixSocketDir, Value,
};

/// Parses any bytes as a configuration: whatever they are, this returns. What was accepted must survive being shown and set again.
///
/// # Panics
/// If it does not: that is a fault of this crate, for a fuzzer to find.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(Loaded { config, .. }) = Config::parse(&text, std::path::Path::new("fuzz.ini")) else {
        return;
    };
    for row in config
        .show()
        .iter()
        .filter(|row| row.changeable == Changeable::Reload)
    {
        let again = config.with(row.key, &row.value);
        assert_eq!(
            again.as_ref(),
            Ok(&config),
            "{} = {} does not survive",
            row.key,
            row.value
        );
    }
}
