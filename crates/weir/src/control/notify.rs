//! Tells systemd how the process is doing (`Type=notify`, `Type=notify-reload`; manual: sd_notify(3)).

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Does nothing without a service manager. A lost message is logged, nothing else.
pub fn send(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else {
        return;
    };
    let sent = UnixDatagram::unbound()
        .and_then(|socket| socket.send_to_addr(state.as_bytes(), &address(&name)?));
    if let Err(error) = sent {
        tracing::warn!("the service manager cannot be told {state:?}: {error}");
    }
}

#[cfg(target_os = "linux")]
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    match name.as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}

#[cfg(not(target_os = "linux"))]
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    SocketAddr::from_pathname(name)
}

/// RELOADING=1 must carry the monotonic time.
pub fn reloading() {
    match nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC) {
        Ok(now) => {
            let micros = now.tv_sec() as u64 * 1_000_000 + now.tv_nsec() as u64 / 1_000;
            send(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
        }
        Err(_) => send("RELOADING=1"),
    }
}
