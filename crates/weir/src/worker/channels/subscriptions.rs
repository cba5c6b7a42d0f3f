//! Which clients of one worker want which channel of a pool.

use pooling::channels::Name;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One worker's part in a pool's shared listener.
#[derive(Default)]
pub struct Subscriptions {
    /// Clients in ascending order.
    by_channel: FxHashMap<Name, Vec<usize>>,
    /// The channel of the markers, once the shared listener has told it.
    marker: Option<Arc<str>>,
}

/// Whether anybody here wants a channel still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    Still,
    NoMore,
}

impl Subscriptions {
    pub fn add(&mut self, name: &Name, client: usize) {
        let clients = self.by_channel.entry(name.clone()).or_default();
        if let Err(place) = clients.binary_search(&client) {
            clients.insert(place, client);
        }
    }

    pub fn remove(&mut self, name: &Name, client: usize) -> Wanted {
        let Some(clients) = self.by_channel.get_mut(name) else {
            return Wanted::Still; // that has been said already
        };
        if let Ok(place) = clients.binary_search(&client) {
            clients.remove(place);
        }
        if !clients.is_empty() {
            return Wanted::Still;
        }
        self.by_channel.remove(name);
        Wanted::NoMore
    }

    pub fn of(&self, channel: &[u8]) -> Vec<usize> {
        self.by_channel.get(channel).cloned().unwrap_or_default()
    }

    pub fn everybody(&self) -> BTreeSet<usize> {
        self.by_channel.values().flatten().copied().collect()
    }

    pub fn set_marker(&mut self, channel: Arc<str>) {
        self.marker = Some(channel);
    }

    pub fn is_marker(&self, channel: &[u8]) -> bool {
        let marker = self.marker.as_ref();
        marker.is_some_and(|marker| marker.as_bytes() == channel)
    }
}
