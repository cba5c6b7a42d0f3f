//! Ports for servers that are stopped and started again.

use rand::Rng;
use std::io;
use std::net::{Ipv4Addr, TcpListener};

/// Below the range from which Linux takes the ports of outgoing connections (32768 and up). A port out of that range
/// could be taken by any client while its server restarts, or even be met by a client that connects to itself.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const TRIES: usize = 1_000;

/// A TCP port on 127.0.0.1 that was free a moment ago. Whoever binds it must still be ready to find it taken.
///
/// # Errors
/// `AddrInUse` when a thousand random ports were all taken.
pub fn free() -> io::Result<u16> {
    (0..TRIES)
        .map(|_| rand::rng().random_range(PORTS))
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| io::ErrorKind::AddrInUse.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_bound_and_is_no_ephemeral_one() {
        let port = free().expect("a free port");
        assert!(PORTS.contains(&port));
    }
}
