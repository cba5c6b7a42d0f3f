//! The channels that one client listens to through its pool's shared listener, and what has come for it: how a client changes from its own
//! server connection to the shared one and back without losing a notification or getting one twice.
//!
//! PostgreSQL keeps all notifications of a cluster in one queue, in the order of commits; every session that listens gets a part of that one
//! sequence. Two facts follow, and everything here rests on them:
//!
//! - **A marker divides the sequence for both.** When LISTEN has committed on a server connection, its notifications come from there. The shared
//!   listener begins to listen to the same channels; when that is confirmed, the server connection says LISTEN and NOTIFY of a channel that only the
//!   pooler knows. PostgreSQL delivers a session's own notifications, and all before them, ahead of its ReadyForQuery. So both see the marker at the
//!   same place of the sequence: what the server connection brings before it goes to the client, and what the shared listener brings behind it;
//!   nothing else does. Then the server connection gets `UNLISTEN *`, and has nothing left that belongs to the client.
//! - **What the shared listener brings is complete.** A later transaction of such a client, if it may do anything with channels, begins with the
//!   client's channels being listened to on its server connection again (the *recall*), so that UNLISTEN, ROLLBACK and
//!   `pg_listening_channels()` mean what they should. What that connection brings meanwhile of others is left out; the client's own notifications, which belong ahead of
//!   its ReadyForQuery, are *early* copies of what the shared listener brings or has brought since the transaction began; and since that is
//!   held back while a client has a server connection, each early copy is matched by exactly one that is still in the queue or still to come, which is
//!   dropped. Equal notifications cannot be told apart, so it does not matter which of them it is.
//!
//! If the shared listener is lost, nobody can say what it would have brought: no early copy is waited for, and the client is told of the gap once there is
//! another. A marker that
//! has not come from the server connection by then divides nothing, since the shared listener's copy of it may be lost: another one is needed.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use wire::backend::NotificationResponse;
use wire::quote::quote_identifier;
use wire::{Report, Severity, SqlState, WireError};

/// A channel's name as PostgreSQL says it.
pub type Name = Box<[u8]>;

#[derive(Debug, PartialEq, Eq)]
pub struct Notification {
    /// Of the server process that sent it.
    pub pid: i32,
    pub channel: Name,
    pub payload: Box<[u8]>,
}

impl Notification {
    /// # Errors
    /// A NotificationResponse that is none.
    pub fn parse(body: &[u8]) -> Result<Notification, WireError> {
        let NotificationResponse {
            pid,
            channel,
            payload,
        } = NotificationResponse::parse(body)?;
        Ok(Notification {
            pid,
            channel: channel.into(),
            payload: payload.into(),
        })
    }

    /// Bytes of the message.
    pub fn size(&self) -> usize {
        const REST: usize = 11; // header, process id, two NULs
        REST + self.channel.len() + self.payload.len()
    }

    /// `pid` as its receiver is to see it.
    pub fn write(&self, pid: i32, out: &mut Vec<u8>) {
        wire::write::notification_response(out, pid, &self.channel, &self.payload);
    }
}

/// What waits for a client.
#[derive(Debug)]
enum Item {
    Notification(Arc<Notification>),
    /// Here something may be missing.
    Gap,
}

impl Item {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Item::Notification(notification) => notification.write(notification.pid, out),
            Item::Gap => wire::write::notice_response(
                out,
                &Report {
                    hint: Some("Look for what you have been waiting for."),
                    ..Report::new(
                        Severity::Warning,
                        SqlState::WARNING,
                        "the connection that listens for this session was lost and has been restored: notifications may be missing",
                    )
                },
            ),
        }
    }
}

/// Where a source of notifications is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    BeforeTheMarker,
    Behind,
    /// The marker may have been lost with the connection.
    Unknown,
}

/// Whether the shared listener brings anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Source {
    #[default]
    Listens,
    Lost,
}

/// What the marker on a client's server connection means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// From here on the shared listener brings the channels.
    Divides,
    /// Nothing: the shared listener was lost meanwhile.
    Void,
}

/// Channels that change from the client's server connection to the shared listener.
#[derive(Debug)]
struct Joining {
    ticket: u64,
    names: BTreeSet<Name>,
    leased: Place,
    shared: Place,
}

/// How a notification that a client's server connection brings gets to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given {
    Now,
    /// Behind all that waits: the shared listener brings it, too, but this is its place.
    BehindTheQueue,
    /// The shared listener brings it, in its order.
    Not,
}

/// How a client's channels differ from what they were.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub new: Vec<Name>,
    pub gone: Vec<Name>,
}

/// One client's channels, and what waits for it. See above.
#[derive(Debug, Default)]
pub struct Channels {
    source: Source,
    live: BTreeSet<Name>,
    joining: Vec<Joining>,
    /// `LISTEN` for all that the shared listener brings, from its marker on.
    recall: Vec<u8>,
    queue: VecDeque<Item>,
    early: Vec<Arc<Notification>>,
    bytes: usize,
}

impl Channels {
    pub fn is_empty(&self) -> bool {
        self.live.is_empty() && self.joining.is_empty()
    }

    /// Those that the shared listener brings or will bring.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.live
            .iter()
            .chain(self.joining.iter().flat_map(|joining| &joining.names))
    }

    /// What makes a server connection listen to them; `None` if there are none.
    pub fn recall(&self) -> Option<&[u8]> {
        (!self.recall.is_empty()).then_some(&self.recall)
    }

    /// Bytes that wait for the client.
    pub fn waiting(&self) -> usize {
        self.bytes
    }

    /// A census has found what the client's server connection listens to: that is all, if its channels had been recalled there; else what is
    /// new.
    pub fn settle(&mut self, found: BTreeSet<Name>, recalled: bool) -> Change {
        let known: BTreeSet<Name> = self.names().cloned().collect();
        let new = found.difference(&known).cloned().collect();
        let gone: Vec<Name> = match recalled {
            true => known.difference(&found).cloned().collect(),
            false => Vec::new(),
        };
        if !gone.is_empty() {
            self.drop_channels(&gone);
        }
        Change { new, gone }
    }

    fn drop_channels(&mut self, gone: &[Name]) {
        self.live.retain(|name| !gone.contains(name));
        for joining in &mut self.joining {
            joining.names.retain(|name| !gone.contains(name));
        }
        self.queue.retain(|item| match item {
            Item::Notification(it) => !gone.contains(&it.channel),
            Item::Gap => true,
        });
        self.early.retain(|it| !gone.contains(&it.channel));
        self.count();
        self.complete();
    }

    /// The shared listener is going to listen to these.
    pub fn join(&mut self, ticket: u64, names: impl IntoIterator<Item = Name>) {
        self.joining.push(Joining {
            ticket,
            names: names.into_iter().collect(),
            leased: Place::BeforeTheMarker,
            shared: Place::BeforeTheMarker,
        });
    }

    /// The client's server connection has brought the marker.
    pub fn leased_marker(&mut self, ticket: u64) -> Marker {
        match self.joining.iter_mut().find(|it| it.ticket == ticket) {
            Some(joining) if joining.shared == Place::Unknown => return Marker::Void,
            Some(joining) => joining.leased = Place::Behind,
            None => {}
        }
        self.complete();
        Marker::Divides
    }

    /// The shared listener has brought a marker.
    pub fn shared_marker(&mut self, ticket: u64) {
        let before = |it: &&mut Joining| it.ticket == ticket && it.shared != Place::Unknown;
        if let Some(joining) = self.joining.iter_mut().find(before) {
            joining.shared = Place::Behind;
        }
        self.complete();
    }

    /// The client's server connection becomes the shared listener: it needs no marker.
    pub fn lent(&mut self, ticket: u64) {
        if let Some(joining) = self.joining.iter_mut().find(|it| it.ticket == ticket) {
            joining.leased = Place::Behind;
            joining.shared = Place::Behind;
        }
        self.complete();
    }

    /// A void marker is going to be replaced by another.
    pub fn join_again(&mut self, ticket: u64, by: u64) -> Vec<Name> {
        let Some(joining) = self.joining.iter_mut().find(|it| it.ticket == ticket) else {
            return Vec::new();
        };
        joining.ticket = by;
        joining.shared = Place::BeforeTheMarker;
        joining.names.iter().cloned().collect()
    }

    fn complete(&mut self) {
        let done = |it: &mut Joining| it.leased == Place::Behind && it.shared == Place::Behind;
        for joining in self.joining.extract_if(.., done) {
            self.live.extend(joining.names);
        }
        self.joining.retain(|joining| !joining.names.is_empty());
        self.write_recall();
    }

    /// The shared listener brings a notification: true if it waits for the client now.
    pub fn shared(&mut self, notification: &Arc<Notification>) -> bool {
        let joins = |joining: &Joining| {
            joining.shared == Place::Behind && joining.names.contains(&notification.channel)
        };
        if !self.live.contains(&notification.channel) && !self.joining.iter().any(joins) {
            return false;
        }
        if let Some(place) = self.early.iter().position(|early| early == notification) {
            self.early.swap_remove(place);
            self.bytes -= notification.size();
            return false;
        }
        self.bytes += notification.size();
        self.queue
            .push_back(Item::Notification(Arc::clone(notification)));
        true
    }

    /// The client's server connection brings a notification; `pid` is that connection's.
    pub fn leased(&mut self, notification: Notification, pid: i32) -> Given {
        let joins = |joining: &Joining| {
            joining.leased == Place::Behind && joining.names.contains(&notification.channel)
        };
        if !self.live.contains(&notification.channel) && !self.joining.iter().any(joins) {
            return Given::Now;
        }
        if notification.pid != pid {
            return Given::Not;
        }
        let waits = |item: &Item| matches!(item, Item::Notification(it) if **it == notification);
        match self.queue.iter().position(waits) {
            Some(place) => {
                self.queue.remove(place);
                self.bytes -= notification.size();
            }
            None if self.source == Source::Lost => {}
            None => {
                self.bytes += notification.size();
                self.early.push(Arc::new(notification));
            }
        }
        Given::BehindTheQueue
    }

    /// The shared listener was lost.
    pub fn lost(&mut self) {
        self.source = Source::Lost;
        self.early.clear();
        for joining in &mut self.joining {
            if joining.leased == Place::Behind {
                joining.shared = Place::Behind;
                continue;
            }
            joining.shared = Place::Unknown;
            // These come from the server connection, then.
            self.queue.retain(|item| match item {
                Item::Notification(it) => !joining.names.contains(&it.channel),
                Item::Gap => true,
            });
        }
        self.complete();
        self.count();
    }

    /// It listens again.
    pub fn restored(&mut self) {
        self.source = Source::Listens;
        if !self.live.is_empty() {
            self.queue.push_back(Item::Gap);
        }
    }

    /// Writes what waits, as messages; nothing does then.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        for item in self.queue.drain(..) {
            item.write(out);
        }
        if self.queue.capacity() > 64 {
            self.queue = VecDeque::new();
        }
        self.count();
    }

    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    fn count(&mut self) {
        let queued = self.queue.iter().map(|item| match item {
            Item::Notification(notification) => notification.size(),
            Item::Gap => 0,
        });
        let early = self.early.iter().map(|notification| notification.size());
        self.bytes = queued.chain(early).sum();
    }

    fn write_recall(&mut self) {
        self.recall.clear();
        let joining = self.joining.iter().filter(|it| it.leased == Place::Behind);
        for name in self.live.iter().chain(joining.flat_map(|it| &it.names)) {
            write_listen(&mut self.recall, name);
        }
    }
}

/// Whether PostgreSQL means the same encoding by both: neither case nor punctuation counts.
/// (Manual: Character Set Support)
#[must_use]
pub fn is_same_encoding(one: &str, other: &str) -> bool {
    let letters = |name: &str| {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        match letters
            .map(|it| it.to_ascii_lowercase())
            .collect::<String>()
        {
            alias if alias == "unicode" => "utf8".to_owned(),
            name => name,
        }
    };
    letters(one) == letters(other)
}

/// `LISTEN name;`
pub fn write_listen(sql: &mut Vec<u8>, name: &[u8]) {
    sql.extend_from_slice(b"LISTEN ");
    quote_identifier(sql, name);
    sql.push(b';');
}

/// `UNLISTEN name;`
pub fn write_unlisten(sql: &mut Vec<u8>, name: &[u8]) {
    sql.extend_from_slice(b"UN");
    write_listen(sql, name);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.as_bytes().into()
    }

    fn note(channel: &str, payload: &str) -> Notification {
        Notification {
            pid: 1,
            channel: name(channel),
            payload: payload.as_bytes().into(),
        }
    }

    fn payloads(channels: &mut Channels) -> Vec<String> {
        let mut bytes = Vec::new();
        channels.take(&mut bytes);
        let mut payloads = Vec::new();
        let mut rest = &bytes[..];
        while let Ok(Some(header)) = wire::Header::peek(rest) {
            let body = &rest[wire::Header::SIZE..header.total()];
            payloads.push(match NotificationResponse::parse(body) {
                Ok(it) if header.tag == b'A' => String::from_utf8_lossy(it.payload).into_owned(),
                _ => "gap".to_owned(),
            });
            rest = &rest[header.total()..];
        }
        payloads
    }

    /// Of a client that listens to `channel` through the shared listener.
    fn live(channel: &str) -> Channels {
        let mut channels = Channels::default();
        channels.join(1, [name(channel)]);
        channels.leased_marker(1);
        channels.shared_marker(1);
        channels
    }

    #[test]
    fn names_of_encodings() {
        for name in ["utf-8", "'utf-8'", "Utf8", "UNICODE"] {
            assert!(is_same_encoding(name, "UTF8"), "{name}");
        }
        assert!(!is_same_encoding("LATIN1", "UTF8") && !is_same_encoding("", "UTF8"));
    }

    #[test]
    fn a_marker_divides_what_either_brings() {
        for shared_is_first in [false, true] {
            let mut channels = Channels::default();
            let change = channels.settle([name("a")].into(), false);
            assert_eq!((change.new.len(), change.gone.len()), (1, 0));
            channels.join(7, change.new);
            assert_eq!(channels.leased(note("a", "1"), 1), Given::Now);
            assert!(!channels.shared(&Arc::new(note("a", "1"))));
            if shared_is_first {
                channels.shared_marker(6);
                channels.shared_marker(7);
                assert!(channels.shared(&Arc::new(note("a", "3"))));
                assert_eq!(channels.leased(note("a", "2"), 1), Given::Now);
                channels.leased_marker(7);
            } else {
                assert_eq!(channels.leased(note("a", "2"), 1), Given::Now);
                channels.leased_marker(7);
                assert_eq!(channels.recall(), Some(&b"LISTEN \"a\";"[..]));
                assert_eq!(
                    channels.leased(note("a", "early"), 1),
                    Given::BehindTheQueue
                );
                assert!(!channels.shared(&Arc::new(note("a", "2"))));
                channels.shared_marker(7);
                assert!(!channels.shared(&Arc::new(note("a", "early"))));
                assert!(channels.shared(&Arc::new(note("a", "3"))));
            }
            assert_eq!(payloads(&mut channels), ["3"]);
            assert_eq!(channels.waiting(), 0);
            assert_eq!(channels.recall(), Some(&b"LISTEN \"a\";"[..]));
        }
    }

    #[test]
    fn an_early_copy_replaces_one_that_waits_or_comes() {
        let mut channels = live("a");
        assert!(channels.shared(&Arc::new(note("a", "1"))));
        assert!(channels.shared(&Arc::new(note("a", "2"))));
        assert_eq!(channels.leased(note("a", "2"), 1), Given::BehindTheQueue);
        assert_eq!(channels.leased(note("a", "3"), 1), Given::BehindTheQueue);
        assert_eq!(payloads(&mut channels), ["1"]);
        assert!(!channels.shared(&Arc::new(note("a", "3"))));
        assert_eq!(channels.waiting(), 0);
        assert!(channels.shared(&Arc::new(note("a", "3"))));
        assert_eq!(channels.leased(note("a", "3"), 2), Given::Not);
        assert_eq!(payloads(&mut channels), ["3"]);
    }

    #[test]
    fn channels_go_only_where_they_had_been_recalled() {
        let mut channels = live("a");
        assert!(channels.shared(&Arc::new(note("a", "1"))));
        assert_eq!(channels.settle(BTreeSet::new(), false), Change::default());
        let gone = channels.settle(BTreeSet::new(), true).gone;
        assert_eq!(gone, [name("a")]);
        assert!(channels.is_empty() && channels.recall().is_none());
        channels.join(2, [name("b")]);
        channels.leased_marker(2);
        let change = channels.settle([name("b"), name("c")].into(), true);
        assert_eq!((change.new, change.gone), (vec![name("c")], vec![]));
        assert_eq!(channels.settle(BTreeSet::new(), true).gone, [name("b")]);
        assert!(payloads(&mut channels).is_empty());
        assert!(!channels.shared(&Arc::new(note("a", "2"))));
    }

    #[test]
    fn a_gap_makes_a_marker_void_that_has_not_come() {
        for shared_is_first in [false, true] {
            let mut channels = live("a");
            channels.join(2, [name("b")]);
            if shared_is_first {
                channels.shared_marker(2);
                assert!(channels.shared(&Arc::new(note("b", "1"))));
            }
            channels.lost();
            channels.restored();
            channels.shared_marker(2);
            assert!(!channels.shared(&Arc::new(note("b", "1"))));
            assert_eq!(channels.leased_marker(2), Marker::Void);
            assert_eq!(channels.leased(note("b", "1"), 1), Given::Now);
            assert_eq!(channels.join_again(2, 3), [name("b")]);
            channels.shared_marker(2);
            assert!(!channels.shared(&Arc::new(note("b", "2"))));
            assert_eq!(channels.leased(note("b", "2"), 1), Given::Now);
            assert_eq!(channels.leased_marker(3), Marker::Divides);
            channels.shared_marker(3);
            assert!(channels.shared(&Arc::new(note("b", "3"))));
            assert_eq!(payloads(&mut channels), ["gap", "3"]);
        }
    }

    #[test]
    fn a_connection_that_is_lent_needs_no_marker() {
        for lost in [false, true] {
            let mut channels = Channels::default();
            channels.join(1, [name("a")]);
            if lost {
                channels.lost();
            }
            channels.lent(1);
            assert!(channels.shared(&Arc::new(note("a", "1"))));
            assert_eq!(payloads(&mut channels), ["1"]);
        }
    }

    #[test]
    fn a_gap_ends_all_waiting_for_the_shared_listener() {
        let mut channels = live("a");
        assert_eq!(channels.leased(note("a", "1"), 1), Given::BehindTheQueue);
        channels.join(2, [name("b")]);
        channels.leased_marker(2);
        channels.lost();
        assert_eq!(channels.leased(note("b", "0"), 1), Given::BehindTheQueue);
        assert_eq!(channels.waiting(), 0);
        channels.restored();
        assert!(channels.shared(&Arc::new(note("a", "1"))));
        assert!(channels.shared(&Arc::new(note("b", "2"))));
        assert_eq!(payloads(&mut channels), ["gap", "1", "2"]);
    }
}
