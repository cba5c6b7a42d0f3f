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
    AuthType, BadValue, ByteSize, CheckQuery, FileMode, LoadBalanceHosts, LogFormat, PoolMode,
    Reactor, SslMode, SyslogFacility, UnixSocketDir, Value,
};

/// Parses any bytes as a configuration: whatever they are, this returns. What is accepted must survive being shown and set again.
pub fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Ok(loaded) = Config::parse(&text, std::path::Path::new("fuzz.ini")) else {
        return;
    };
    let shown = loaded.config.show();
    let changeable = shown
        .iter()
        .filter(|row| row.changeable == Changeable::Reload);
    for row in changeable {
        let again = loaded.config.with(row.key, &row.value);
        assert_eq!(
            again.map(|config| config.show()).as_ref(),
            Ok(&shown),
            "{} does not survive",
            row.key
        );
    }
}
