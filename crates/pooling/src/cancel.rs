//! Cancel keys towards clients. A key is computed from the process's secret and the client, so nothing has to be stored for
//! it, and a client's process id names the worker that owns it, so that a request is routed in constant time.
//! (Protocol: "Canceling Requests in Progress" and BackendKeyData in the manual.)

use siphasher::sip128::{Hasher128, SipHasher24};
use std::hash::Hasher;
use wire::startup::ProtocolVersion;

/// Workers that a process id can name.
pub const WORKERS_MAX: usize = 64;
const WORKER_BITS: u32 = 6;

/// Makes and checks the cancel keys of all clients of this process.
#[derive(Clone)]
pub struct CancelKeys {
    secret: [u8; 16],
}

/// The secret half of a client's cancel key: 4 bytes in protocol 3.0, 32 bytes from 3.2 on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CancelSecret {
    bytes: [u8; 32],
    len: u8,
}

/// The public half: what clients see as the server's process id. Positive, unique among the clients of this process that
/// connected within the last 2^25 of their worker, and it names the worker.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClientPid(pub i32);

impl ClientPid {
    pub fn new(worker: usize, serial: u64) -> ClientPid {
        let serial_bits = 31 - WORKER_BITS;
        let serial = (serial % ((1 << serial_bits) - 1)) as i32 + 1;
        ClientPid(serial << WORKER_BITS | (worker % WORKERS_MAX) as i32)
    }

    pub fn worker(self) -> usize {
        self.0 as usize & (WORKERS_MAX - 1)
    }
}

impl CancelKeys {
    pub fn new(secret: [u8; 16]) -> CancelKeys {
        CancelKeys { secret }
    }

    /// The secret of the client with this id. Ids are never used twice in a process, so a key never comes back either.
    pub fn secret(&self, client_id: u64, version: ProtocolVersion) -> CancelSecret {
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.keyed(client_id, 0));
        bytes[16..].copy_from_slice(&self.keyed(client_id, 1));
        let len = if version.minor >= 2 { 32 } else { 4 };
        CancelSecret { bytes, len }
    }

    fn keyed(&self, client_id: u64, half: u8) -> [u8; 16] {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write_u64(client_id);
        hasher.write_u8(half);
        hasher.finish128().as_bytes()
    }
}

impl CancelSecret {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Compares in a time that does not depend on where the first difference is.
    pub fn matches(&self, given: &[u8]) -> bool {
        let own = self.as_bytes();
        own.len() == given.len() && own.iter().zip(given).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
    }
}
