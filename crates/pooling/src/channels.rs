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
//!   nothing else does. Then the server connection gets `UNLISTEN *`, and has nothing left that belongs to the client. If the client has other channels already, what
//!   the server connection brings before the marker is *held* until the shared listener has brought the marker, too, and then put between what that has
//!   brought: both bring the same of the other channels, so their number from there to the marker tells the place.
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
    /// The marker of this ticket.
    Marker(u64),
}

impl Item {
    /// Of the message. A warning does not count.
    fn size(&self) -> usize {
        match self {
            Item::Notification(notification) => notification.size(),
            Item::Gap | Item::Marker(_) => 0,
        }
    }

    fn is_of(&self, channels: impl Fn(&Name) -> bool) -> bool {
        matches!(self, Item::Notification(it) if channels(&it.channel))
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Item::Marker(_) => {}
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
    /// [`Channels::passed`] where the server connection brought the marker.
    passed: u64,
}

/// A notification that a server connection has brought ahead of the marker.
#[derive(Debug)]
struct Held {
    notification: Arc<Notification>,
    /// [`Channels::passed`] then.
    passed: u64,
}

/// How a notification that a client's server connection brings gets to the client.
#[derive(PartialEq, Eq, Debug)]
pub enum Given {
    Now,
    /// Behind so many of those that wait: the shared listener brings it, too, but this is its place.
    Behind(usize),
    /// Only the server connection brings it, and the shared listener others that belong before it: to be held ([`Channels::hold`]) if the channel is
    /// going to join.
    New(Notification),
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
    held: Vec<Held>,
    /// Notifications that a server connection has brought and that were left to the shared listener.
    passed: u64,
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
        self.queue
            .retain(|item| !item.is_of(|name| gone.contains(name)));
        self.early.retain(|it| !gone.contains(&it.channel));
        self.held
            .retain(|it| !gone.contains(&it.notification.channel));
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
            passed: 0,
        });
    }

    /// The client's server connection has brought the marker.
    pub fn leased_marker(&mut self, ticket: u64) -> Marker {
        match self.joining.iter_mut().find(|it| it.ticket == ticket) {
            Some(joining) if joining.shared == Place::Unknown => return Marker::Void,
            Some(joining) => {
                joining.leased = Place::Behind;
                joining.passed = self.passed;
            }
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
            self.queue.push_back(Item::Marker(ticket));
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
        let done: Vec<Joining> = self.joining.extract_if(.., done).collect();
        for joining in done {
            self.place_held(&joining);
            self.live.extend(joining.names);
        }
        self.joining.retain(|joining| !joining.names.is_empty());
        self.write_recall();
    }

    /// Puts what the server connection has brought ahead of its marker between what the shared listener has brought ahead of its own.
    fn place_held(&mut self, joining: &Joining) {
        let is_marker = |item: &Item| matches!(item, Item::Marker(it) if *it == joining.ticket);
        let mut end = self.queue.len();
        if let Some(place) = self.queue.iter().position(is_marker) {
            self.queue.remove(place);
            end = place;
        }
        let joins = |held: &mut Held| joining.names.contains(&held.notification.channel);
        for held in self.held.extract_if(.., joins) {
            let behind = joining.passed.saturating_sub(held.passed) as usize;
            let place = end.saturating_sub(behind);
            self.queue
                .insert(place, Item::Notification(held.notification));
            end += 1;
        }
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
        let behind = |joining: &Joining| joining.leased == Place::Behind;
        let joins =
            |joining: &Joining| behind(joining) && joining.names.contains(&notification.channel);
        let is_own = notification.pid == pid;
        if self.live.contains(&notification.channel) || self.joining.iter().any(joins) {
            return self.leased_copy(notification, is_own);
        }
        if is_own || self.live.is_empty() && !self.joining.iter().any(behind) {
            return Given::Now;
        }
        Given::New(notification)
    }

    /// Of a notification that the shared listener brings, too.
    fn leased_copy(&mut self, notification: Notification, is_own: bool) -> Given {
        if !is_own {
            self.passed += 1;
            return Given::Not;
        }
        let waits = |item: &Item| matches!(item, Item::Notification(it) if **it == notification);
        if let Some(place) = self.queue.iter().position(waits) {
            self.queue.remove(place);
            self.bytes -= notification.size();
            return Given::Behind(place);
        }
        if self.source == Source::Listens {
            self.bytes += notification.size();
            self.early.push(Arc::new(notification));
        }
        Given::Behind(self.queue.len())
    }

    /// A new notification waits until its place is known.
    pub fn hold(&mut self, notification: Notification) {
        self.bytes += notification.size();
        self.held.push(Held {
            notification: Arc::new(notification),
            passed: self.passed,
        });
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
            self.queue
                .retain(|item| !item.is_of(|name| joining.names.contains(name)));
        }
        self.complete();
        self.release_held();
        self.count();
    }

    /// It listens again.
    pub fn restored(&mut self) {
        self.source = Source::Listens;
        if !self.live.is_empty() {
            self.queue.push_back(Item::Gap);
        }
    }

    fn release_held(&mut self) {
        let held = self.held.drain(..);
        self.queue
            .extend(held.map(|it| Item::Notification(it.notification)));
    }

    /// Writes all that waits, as messages.
    pub fn take(&mut self, out: &mut Vec<u8>) {
        self.release_held();
        self.take_front(self.queue.len(), out);
    }

    /// The first `count` of those that wait.
    pub fn take_front(&mut self, count: usize, out: &mut Vec<u8>) {
        let count = count.min(self.queue.len());
        for item in self.queue.drain(..count) {
            self.bytes -= item.size();
            item.write(out);
        }
        if self.queue.is_empty() && self.queue.capacity() > 64 {
            self.queue = VecDeque::new();
        }
    }

    /// Whether anything waits whose place is known.
    pub fn has_waiting(&self) -> bool {
        match self.joining.is_empty() {
            true => !self.queue.is_empty() || !self.held.is_empty(),
            false => !self.queue.is_empty() && self.held.is_empty(),
        }
    }

    fn count(&mut self) {
        let queued = self.queue.iter().map(Item::size);
        let early = self.early.iter().map(|notification| notification.size());
        let held = self.held.iter().map(|held| held.notification.size());
        self.bytes = queued.chain(early).chain(held).sum();
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
                assert_eq!(channels.leased(note("a", "early"), 1), Given::Behind(0));
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
        assert!(channels.shared(&Arc::new(note("a", "later"))));
        assert_eq!(channels.leased(note("a", "2"), 1), Given::Behind(1));
        assert_eq!(channels.leased(note("a", "3"), 1), Given::Behind(2));
        assert_eq!(payloads(&mut channels), ["1", "later"]);
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

    /// By somebody else, of a channel that the shared listener does not bring yet.
    #[track_caller]
    fn hold(channels: &mut Channels, channel: &str, payload: &str) {
        match channels.leased(note(channel, payload), 2) {
            Given::New(notification) => channels.hold(notification),
            other => panic!("{other:?}"),
        }
    }

    /// Both bring the sequence 0 (before the transaction), 1, 2, 3, the marker, 4; of "a" all, of "b" the server connection before the marker and
    /// the shared listener behind it. Whoever is first, the client gets it in order.
    #[test]
    fn what_is_held_gets_its_place() {
        for schedule in 0..1 << 7 {
            let mut channels = live("a");
            channels.join(2, [name("b")]);
            let (mut leased, mut shared) = (0, 0);
            for turn in 0..11 {
                let leased_is_next = shared == 6 || leased < 5 && schedule >> (turn % 7) & 1 == 1;
                match (leased_is_next, leased, shared) {
                    (true, 0, _) => hold(&mut channels, "b", "1"),
                    (true, 1, _) => assert_eq!(channels.leased(note("a", "2"), 2), Given::Not),
                    (true, 2, _) => hold(&mut channels, "b", "3"),
                    (true, 3, _) => assert_eq!(channels.leased_marker(2), Marker::Divides),
                    (true, 4, _) => assert_eq!(channels.leased(note("a", "4"), 2), Given::Not),
                    (false, _, 1) => channels.shared_marker(1),
                    (false, _, 3) => channels.shared_marker(2),
                    (_, _, at) => {
                        let payload = ["0", "", "2", "", "4", "5"][at];
                        let channel = if payload == "5" { "b" } else { "a" };
                        assert!(channels.shared(&Arc::new(note(channel, payload))));
                    }
                }
                match leased_is_next {
                    true => leased += 1,
                    false => shared += 1,
                }
            }
            assert!(channels.has_waiting());
            assert_eq!(
                payloads(&mut channels),
                ["0", "1", "2", "3", "4", "5"],
                "{schedule:b}"
            );
            assert_eq!((channels.waiting(), channels.has_waiting()), (0, false));
        }
    }

    #[test]
    fn nothing_is_held_for_ever() {
        let mut channels = live("a");
        hold(&mut channels, "b", "1");
        assert!(channels.has_waiting() && channels.waiting() > 0);
        channels.join(2, [name("b")]);
        assert!(channels.shared(&Arc::new(note("a", "2"))));
        assert!(!channels.has_waiting());
        channels.lost();
        assert!(channels.has_waiting());
        assert_eq!(payloads(&mut channels), ["2", "1"]);
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
            hold(&mut channels, "b", "1");
            assert_eq!(channels.join_again(2, 3), [name("b")]);
            channels.shared_marker(2);
            assert!(!channels.shared(&Arc::new(note("b", "2"))));
            hold(&mut channels, "b", "2");
            assert_eq!(channels.leased_marker(3), Marker::Divides);
            channels.shared_marker(3);
            assert!(channels.shared(&Arc::new(note("b", "3"))));
            assert_eq!(payloads(&mut channels), ["gap", "1", "2", "3"]);
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
        assert_eq!(channels.leased(note("a", "1"), 1), Given::Behind(0));
        channels.join(2, [name("b")]);
        channels.leased_marker(2);
        channels.lost();
        assert_eq!(channels.leased(note("b", "0"), 1), Given::Behind(0));
        assert_eq!(channels.waiting(), 0);
        channels.restored();
        assert!(channels.shared(&Arc::new(note("a", "1"))));
        assert!(channels.shared(&Arc::new(note("b", "2"))));
        assert_eq!(payloads(&mut channels), ["gap", "1", "2"]);
    }
}
