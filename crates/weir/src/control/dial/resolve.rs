//! Host names to IP addresses, with a small cache. The look-up itself is the system's `getaddrinfo`, on a thread where it may block.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long answers are used again.
#[derive(Clone, Copy)]
pub struct Lifetimes {
    /// `dns_max_ttl`
    pub found: Duration,
    /// `dns_nxdomain_ttl`
    pub failed: Duration,
}

/// Names come from the configuration only, which bounds the cache.
#[derive(Default)]
pub struct Resolver {
    names: Mutex<HashMap<String, Arc<Name>>>,
}

/// Locked during a look-up: dials that start together ask once.
#[derive(Default)]
struct Name(tokio::sync::Mutex<Option<Known>>);

struct Known {
    until: Instant,
    answer: Result<Arc<[IpAddr]>, String>,
}

impl Resolver {
    /// All addresses of a name, in the system's order, never none; or the system's reason.
    pub async fn resolve(&self, name: &str, lifetimes: Lifetimes) -> Result<Arc<[IpAddr]>, String> {
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(Arc::new([address]));
        }
        let entry = Arc::clone(
            self.names
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(name.to_owned())
                .or_default(),
        );
        let mut known = entry.0.lock().await;
        if let Some(known) = known.as_ref().filter(|known| Instant::now() < known.until) {
            return known.answer.clone();
        }
        let answer = look_up(name).await;
        let lifetime = if answer.is_ok() {
            lifetimes.found
        } else {
            lifetimes.failed
        };
        *known = Some(Known {
            until: Instant::now() + lifetime,
            answer: answer.clone(),
        });
        answer
    }

    /// Names and the addresses known for them (SHOW DNS_HOSTS); a name that is being looked up is left out.
    pub fn known(&self) -> Vec<(String, Arc<[IpAddr]>)> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = |entry: &Name| entry.0.try_lock().ok()?.as_ref()?.answer.clone().ok();
        names
            .iter()
            .filter_map(|(name, entry)| Some((name.clone(), answer(entry)?)))
            .collect()
    }
}

/// `lookup_host` runs getaddrinfo by `spawn_blocking`.
async fn look_up(name: &str) -> Result<Arc<[IpAddr]>, String> {
    let found = tokio::net::lookup_host((name, 0))
        .await
        .map_err(|error| error.to_string())?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map(|found| found.ip()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        Err("the name has no address".into())
    } else {
        Ok(addresses.into())
    }
}
