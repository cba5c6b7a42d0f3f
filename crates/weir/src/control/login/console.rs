//! Who may use the console, and how it greets.

use super::refusal::Refusal;
use crate::control::console_client::Privilege;
use settings::{AuthType, General, is_console};
use std::os::unix::net::UnixStream;
use wire::SqlState;

/// What `user` may do on the console, once authenticated. With `auth_type = any` everybody may do everything, as in PgBouncer: nobody is
/// who they say they are anyway.
pub fn privilege(general: &General, user: &str) -> Result<Privilege, Refusal> {
    let listed = |users: &[String]| users.iter().any(|listed| listed == user);
    match () {
        () if general.auth_type == AuthType::Any || listed(&general.admin_users) => {
            Ok(Privilege::Admin)
        }
        () if listed(&general.stats_users) => Ok(Privilege::Stats),
        () => Err(Refusal::new(
            SqlState::INSUFFICIENT_PRIVILEGE,
            "not allowed",
        )),
    }
}

/// Whether the peer is the operator at home: the user `pgbouncer` or `weir` over the Unix socket, in a process of the same system user
/// as ours. It needs no password.
pub fn is_own_process(socket: &socket2::Socket, user: &str) -> bool {
    is_console(user) && peer_uid(socket) == Some(nix::unistd::getuid().as_raw())
}

fn peer_uid(socket: &socket2::Socket) -> Option<u32> {
    let stream = UnixStream::from(socket.try_clone().ok()?);
    let stream = tokio::net::UnixStream::from_std(stream).ok()?;
    stream.peer_cred().ok().map(|peer| peer.uid())
}

/// ParameterStatus messages: what drivers insist on. They read the leading number of server_version.
pub fn statuses() -> Vec<u8> {
    let version = concat!(env!("CARGO_PKG_VERSION"), "/weir");
    let mut out = Vec::new();
    for (name, value) in [
        ("server_version", version),
        ("client_encoding", "UTF8"),
        ("server_encoding", "UTF8"),
        ("DateStyle", "ISO"),
        ("TimeZone", "GMT"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("is_superuser", "on"),
    ] {
        wire::write::parameter_status(&mut out, name.as_bytes(), value.as_bytes());
    }
    out
}
