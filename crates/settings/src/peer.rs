//! `[peers]`: other processes to which cancel requests would be passed on. Read and checked; not yet in effect.

use crate::parameters::Parameter;
use crate::value::{BadValue, Value};

/// One entry of `[peers]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// A host name, an IP address, a folder (`/...`) or `@name`. Never empty.
    pub host: String,
    pub port: u16,
    pub pool_size: Option<u32>,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            host: String::new(),
            port: 6432,
            pool_size: None,
        }
    }
}

/// Every key of an entry in `[peers]`.
pub(crate) const PARAMETERS: &[Parameter<Peer>] = &[
    Parameter {
        name: "host",
        doc: "Where the peer is. Must be given.",
        set: |peer, text| {
            peer.host = text.to_owned();
            Ok(())
        },
    },
    Parameter {
        name: "port",
        doc: "The peer's port. Default: 6432.",
        set: |peer, text| port(text).map(|port| peer.port = port),
    },
    Parameter {
        name: "pool_size",
        doc: "The most cancel requests on their way to the peer. Default: `default_pool_size`.",
        set: |peer, text| crate::database::inherited(text).map(|size| peer.pool_size = size),
    },
];

fn port(text: &str) -> Result<u16, BadValue> {
    u16::parse(text)
        .filter(|port| *port != 0)
        .ok_or_else(|| BadValue::new("a port from 1 to 65535", text))
}
