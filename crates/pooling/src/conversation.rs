//! The conversation of one server connection with the client that holds it: which replies are owed, which of them the
//! client must not see, and what stands on the server. Everything that decides whether the connection may go to another
//! client is here.
//!
//! The relay shows each message's header (and as much of the body as has arrived) and gets back how many of its bytes
//! to leave out and what to send before the rest. Nearly every message passes unchanged, and the body of most is never looked at.

mod errors;
mod expected;
mod from_client;
mod from_server;
mod reliance;
mod repeat;
mod sequences;
mod sql_names;

pub use expected::Own;
pub use from_client::ClientSide;
pub use from_server::Reply;
pub use sequences::SequenceUse;

use crate::census::Evidence;
use crate::statements::{
    ClientStatements, Forgotten, Mark, Progress, Segment, ServerStatements, Standing, Statement,
    StatementId, write_close, write_marker,
};
use crate::watch::{CENSUS, RECALL};
use expected::{Expected, Parsed, ParsedFor};
use reliance::Reliance;
use repeat::Kept;
use sequences::Sequences;
use sql::Suspicion;
use std::collections::VecDeque;
use std::sync::Arc;
use wire::backend::TransactionStatus;

/// What the pooler has to say itself, before the message that is passed on.
#[derive(Default, Debug)]
pub struct Aside {
    pub to_server: Vec<u8>,
    pub to_client: Vec<u8>,
}

/// What becomes of a message: its first `skip` bytes are left out, the rest is passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passage {
    Pass {
        skip: usize,
    },
    /// More of the message is needed to decide.
    Incomplete,
    /// The server's answers are needed to decide: [`Conversation::is_awaited`].
    Wait,
}

impl Passage {
    const WHOLE: Passage = Passage::Pass { skip: 0 };
}

/// A peer that does not speak the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error(transparent)]
    Malformed(#[from] wire::WireError),
    #[error("unexpected message type 0x{0:02x}")]
    UnexpectedMessage(u8),
}

/// What a server's message means beyond its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Nothing,
    /// The client's Query or Sync is answered.
    Ready,
    /// The body is the error that a query of the pooler's own met.
    OwnFailed(Own),
    /// A query of the pooler's own is answered.
    OwnDone {
        own: Own,
        failed: bool,
    },
    /// The body is a ParameterStatus; it was passed on only if no query of the pooler's own is running.
    ParameterStatus {
        own: bool,
    },
    /// A command undid what the session had set: one parameter, or all of them.
    SettingsReset,
    /// The server dropped all that a session can have (DISCARD ALL).
    SessionReset,
    /// Something has changed under a prepared statement: it is out of date on other server connections, too. Where the mark tells which of the client's
    /// it is, that goes to [`crate::statements::StatementCache::note_outdated`]; without one it may be any.
    Outdated(Mark),
    /// The same, and the client need not know: [`Conversation::repeat`].
    Repeat(Mark),
    /// Something that a session has may have ended: a temporary table, a cursor.
    Dropped,
    /// The body is a NotificationResponse, which was not passed on.
    Notification,
    /// The body is a DataRow that answers a query of the pooler's own.
    OwnRow(Own),
}

/// Where COPY FROM STDIN stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CopyIn {
    No,
    /// The server has asked for data and the client has not ended it.
    Running,
    /// The client has ended it, the server has not confirmed.
    Ended,
}

/// Whether the server answers what the client sends, or ignores it up to the next Sync.
/// (Protocol: "Extended Query", on errors.)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Normal,
    Skipping,
}

/// Whose the server's unnamed statement will be once it has read what has been sent to it.
#[derive(Clone, Debug)]
enum UnnamedIs {
    SomebodyElses,
    /// The client's in this lease, be it none; and the segment in which it was made so.
    TheClients {
        statement: Option<Arc<Statement>>,
        since: Segment,
    },
}

/// Whether the server keeps a transaction open until a Sync comes, which has not been sent.
/// (Protocol: "Extended Query": the implicit transaction ends at Sync)
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Series {
    Closed,
    Open,
}

/// Prepared statements on this server connection.
enum Prepared {
    /// Shared by all clients of the pool, under the pooler's names.
    Shared(ServerStatements),
    /// The client's own, passed on as they are.
    Raw,
}

pub struct Conversation {
    expected: VecDeque<Expected>,
    status: TransactionStatus,
    flow: Flow,
    copy_in: CopyIn,
    prepared: Prepared,
    /// The server's unnamed statement, as it has confirmed it.
    unnamed: Option<StatementId>,
    unnamed_is: UnnamedIs,
    progress: Progress,
    series: Series,
    /// A portal whose execution drops all named statements.
    deallocating_portal: Option<Box<[u8]>>,
    /// Statements whose Parse was sent behind what may yet change how it is read.
    parsed_in_haste: Vec<StatementId>,
    kept: Kept,
    /// A ParameterDescription that the client gets together with the message that follows it.
    described: Vec<u8>,
    /// Replies that the client has got of the segment that will be said again.
    given: usize,
    recalled: Recalled,
    /// What the client's statements may have done to its session since the server was last asked.
    evidence: Option<Box<Evidence>>,
    sequences: Sequences,
    reliance: Reliance,
    trust: Trust,
}

/// Whether the server connection listens to the channels of the client that holds it ([`crate::channels`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recalled {
    No,
    Yes,
}

/// Beyond so many replies owed, what is kept from the server is accompanied by something that is not: the server's pace then bounds
/// how much a client can make Weir note.
const WITHHELD_MAX: usize = 1000;

/// Whether the connection can serve another client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Trust {
    Full,
    /// It can no longer be known which reply belongs to which message.
    Doubtful,
    /// The server has said why it is going to close the connection.
    Farewell,
}

impl Conversation {
    /// Of a server connection that has just logged in. `statements_max`: how many shared statements it may have prepared; `None`
    /// if clients' statements are passed on as they are.
    pub fn new(statements_max: Option<usize>) -> Conversation {
        Conversation {
            expected: VecDeque::new(),
            status: TransactionStatus::Idle,
            flow: Flow::Normal,
            copy_in: CopyIn::No,
            prepared: match statements_max {
                Some(max) => Prepared::Shared(ServerStatements::new(max)),
                None => Prepared::Raw,
            },
            unnamed: None,
            unnamed_is: UnnamedIs::SomebodyElses,
            progress: Progress::default(),
            series: Series::Closed,
            deallocating_portal: None,
            parsed_in_haste: Vec::new(),
            kept: Kept::nothing(),
            described: Vec::new(),
            given: 0,
            recalled: Recalled::No,
            evidence: None,
            sequences: Sequences::NEW,
            reliance: Reliance::default(),
            trust: Trust::Full,
        }
    }

    /// A client begins; `client` is a number of its own.
    pub fn begin_lease(&mut self, client: u64) {
        self.sequences.begin_lease(client);
        self.unnamed_is = UnnamedIs::SomebodyElses;
        self.recalled = Recalled::No;
        self.kept.renew();
        self.reliance = Reliance::default();
    }

    /// What is prepared here may be out of date: something has changed since.
    pub fn doubt_prepared(&mut self) {
        self.doubt_statements();
        self.doubt_unnamed();
    }

    /// If there is an unnamed statement, it will not do for anybody.
    fn doubt_unnamed(&mut self) {
        self.unnamed = Some(StatementId::UNKNOWN);
    }

    /// The transaction status that the server last reported.
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// The server has said that it is idle and owes no reply: the connection may go to another client.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.expected.is_empty()
            && self.series == Series::Closed
            && self.status == TransactionStatus::Idle
            && self.flow == Flow::Normal
            && self.copy_in == CopyIn::No
            && self.trust == Trust::Full
    }

    /// Nobody can prove any more what the server will answer: the connection has to be closed.
    pub fn is_doubtful(&self) -> bool {
        self.trust != Trust::Full
    }

    /// The server's last words have been passed on: a FATAL error.
    pub fn has_said_goodbye(&self) -> bool {
        self.trust == Trust::Farewell
    }

    /// The server owes replies, or waits for a Sync.
    pub fn is_busy(&self) -> bool {
        !self.expected.is_empty() || self.series == Series::Open || self.flow == Flow::Skipping
    }

    /// Which request the server is busy with, if the client has sent no other: a number of its own for each.
    pub fn sole_request(&self) -> Option<Segment> {
        let ends = |expected: &&Expected| {
            expected.ends_segment() && !matches!(expected, Expected::Own { .. })
        };
        let sole = match self.expected.iter().filter(ends).count() {
            0 => self.is_busy(),
            1 => self.expected.back().is_some_and(Expected::ends_segment),
            _ => false,
        };
        sole.then_some(self.progress.sent)
    }

    /// Gives a census reason to ask again about what it has found before.
    pub fn look_again(&mut self) {
        self.evidence.get_or_insert_default();
    }

    /// What runs was looked at by words that are out of date.
    pub fn doubt_words(&mut self) {
        if !self.is_settled() {
            self.note(Suspicion::OPAQUE, b"(while the catalogue changed)");
        }
    }

    /// Gives a census reason to ask what the session listens to.
    pub fn look_again_at_channels(&mut self, statement: &str) {
        self.note(Suspicion::LISTEN, statement.as_bytes());
    }

    /// Whether a census has reason to ask.
    pub fn has_evidence(&self) -> bool {
        self.evidence.is_some()
    }

    /// The database that everybody else has to leave for what the client has just said. Told once.
    #[inline]
    pub fn take_alone_in(&mut self) -> Option<sql::Name> {
        self.evidence.as_mut()?.alone_in.take()
    }

    pub fn take_evidence(&mut self) -> Option<Box<Evidence>> {
        self.evidence.take()
    }

    /// Whether the client's channels have been recalled since they were last unlistened to.
    pub fn has_recalled(&self) -> bool {
        self.recalled == Recalled::Yes
    }

    /// The server listens to nothing any more, or to what its client keeps it for.
    pub fn end_recall(&mut self) {
        self.recalled = Recalled::No;
    }

    /// Before a statement that may have to do with channels: makes the server listen to those of its client, in a transaction of its own. Within a
    /// transaction block, or a series that has begun, it is too late for that.
    #[inline]
    fn recall(&mut self, sql: Option<&[u8]>, suspicion: Suspicion, to_server: &mut Vec<u8>) {
        if let Some(sql) = sql
            && suspicion.intersects(RECALL)
        {
            self.recall_in_time(sql, to_server);
        }
    }

    #[cold]
    fn recall_in_time(&mut self, sql: &[u8], to_server: &mut Vec<u8>) {
        let outside = self.status == TransactionStatus::Idle
            && self.series == Series::Closed
            && self.flow == Flow::Normal
            && self.copy_in == CopyIn::No;
        if outside && self.recalled == Recalled::No {
            self.own_query(Own::Recall, sql, to_server);
            self.recalled = Recalled::Yes;
        }
    }

    /// Before a message without a text, which may begin a series with any: a driver closes what it needs no more ahead of its next statement.
    #[inline]
    fn recall_unseen(&mut self, sql: Option<&[u8]>, to_server: &mut Vec<u8>) {
        self.recall(sql, Suspicion::OPAQUE, to_server);
    }

    #[inline]
    fn note(&mut self, suspicion: Suspicion, text: &[u8]) {
        let suspicion = suspicion & CENSUS;
        if !suspicion.is_empty() {
            self.evidence.get_or_insert_default().add(suspicion, text);
        }
    }

    pub fn prepared_statements(&self) -> usize {
        match &self.prepared {
            Prepared::Shared(statements) => statements.len(),
            Prepared::Raw => 0,
        }
    }

    /// The shared statements by their names on the server, and what is known of each.
    pub fn statements(&self) -> impl Iterator<Item = (Vec<u8>, Standing)> {
        let shared = match &self.prepared {
            Prepared::Shared(statements) => Some(statements.iter(self.progress)),
            Prepared::Raw => None,
        };
        shared
            .into_iter()
            .flatten()
            .map(|(name, standing)| (name.to_vec(), standing))
    }

    /// Replies that are noted as owed.
    pub fn owed(&self) -> usize {
        self.expected.len()
    }

    /// Sends a query of the pooler's own; its replies are kept from the client.
    pub fn own_query(&mut self, own: Own, sql: &[u8], to_server: &mut Vec<u8>) {
        wire::write::query(to_server, sql);
        self.unnamed = None; // (Protocol: a simple Query destroys the unnamed statement)
        self.unnamed_is = UnnamedIs::SomebodyElses;
        self.expect(Expected::Own { own, failed: false });
    }

    /// Ends what a client that is gone has left open, so that the server comes back to ReadyForQuery: a COPY is failed, also one that
    /// the server has not begun yet (outside of one it ignores CopyFail), and an extended conversation gets its Sync.
    pub fn wind_up(&mut self, to_server: &mut Vec<u8>) {
        let may_begin =
            self.copy_in == CopyIn::No && self.expected.iter().any(Expected::is_execution);
        if may_begin || self.copy_in == CopyIn::Running {
            wire::write::copy_fail(to_server, b"client is gone");
            self.copy_end();
        }
        let unanswered = self
            .expected
            .iter()
            .rev()
            .take_while(|expected| !expected.is_sync());
        let awaits_sync = unanswered
            .into_iter()
            .any(|expected| expected.opens_series() || expected.is_synthetic());
        if awaits_sync || self.series == Series::Open || self.flow == Flow::Skipping {
            wire::write::sync(to_server);
            self.sync();
        }
    }

    #[inline]
    fn expect(&mut self, expected: Expected) {
        if expected.ends_segment() {
            self.progress.sent += 1;
        } else if expected.opens_series() {
            self.series = Series::Open;
        }
        self.expected.push_back(expected);
    }

    /// What is kept from the server.
    fn expect_synthetic(&mut self, synthetic: Expected, to_server: &mut Vec<u8>) {
        self.expect(synthetic);
        if self.expected.len() > WITHHELD_MAX {
            self.mark(to_server);
        }
    }

    /// Makes the server say something when it has answered all up to here.
    fn mark(&mut self, to_server: &mut Vec<u8>) {
        write_marker(to_server);
        self.expect(Expected::Marker);
    }

    /// Makes sure that a statement is prepared under its server name. The Parse, and the Close of the statement that has to go for it, are
    /// the pooler's own: the client does not see their replies.
    #[inline]
    fn ensure_prepared(&mut self, statement: &Arc<Statement>, to_server: &mut Vec<u8>) {
        let standing = self.standing(statement.id);
        if standing != Standing::Prepared {
            self.prepare(statement, standing, ParsedFor::PoolerNamed, to_server);
        }
    }

    #[inline]
    fn standing(&mut self, id: StatementId) -> Standing {
        match &mut self.prepared {
            Prepared::Shared(statements) => statements.touch(id, self.progress),
            Prepared::Raw => Standing::Absent,
        }
    }

    fn prepare(
        &mut self,
        statement: &Arc<Statement>,
        standing: Standing,
        parsed_for: ParsedFor,
        to_server: &mut Vec<u8>,
    ) {
        let is_leaving = |expected: &Expected| matches!(expected, Expected::CloseShared(id) if **id == statement.id);
        if standing != Standing::Absent || self.expected.iter().any(is_leaving) {
            self.close_shared(statement.id, to_server);
        }
        while let Prepared::Shared(statements) = &mut self.prepared
            && standing == Standing::Absent
            && let Some(evicted) = statements.evict()
        {
            self.close_shared(evicted, to_server);
        }
        if let Prepared::Shared(statements) = &mut self.prepared {
            statements.insert(statement.id, self.progress.sent);
        }
        statement.write_parse(statement.server_name(), to_server);
        self.expect_parse(statement, parsed_for);
    }

    fn close_shared(&mut self, id: StatementId, to_server: &mut Vec<u8>) {
        write_close(id, to_server);
        self.expect(Expected::CloseShared(Box::new(id)));
    }

    fn expect_parse(&mut self, statement: &Arc<Statement>, parsed_for: ParsedFor) {
        let since = self.progress.sent;
        if self.expected.iter().any(Expected::is_execution) {
            self.parsed_in_haste.push(statement.id);
        }
        self.expect(Expected::Parse(Box::new(Parsed {
            statement: Arc::clone(statement),
            parsed_for,
            since,
        })));
    }

    /// Gives the replies that the pooler makes itself and whose turn has come.
    #[inline]
    fn answer_synthetic(&mut self, to_client: &mut Vec<u8>) {
        while self.expected.front().is_some_and(Expected::is_synthetic) {
            match self.expected.pop_front() {
                Some(Expected::SyntheticParse(_)) => wire::write::parse_complete(to_client),
                _ => wire::write::close_complete(to_client),
            }
        }
    }

    /// A message that drops all named statements is being sent. What follows it cannot rely on them; if it fails, they are as they were.
    fn expect_deallocation(&mut self, client: &mut ClientStatements) -> Box<Forgotten> {
        self.names_change();
        self.doubt_statements();
        Box::new(client.forget_named())
    }

    /// A parameter has changed: what was parsed behind the change is not what its identity says.
    fn doubt_hasty(&mut self) {
        if self.parsed_in_haste.is_empty() {
            return;
        }
        self.doubt_unnamed();
        for id in self.parsed_in_haste.drain(..) {
            if let Prepared::Shared(statements) = &mut self.prepared {
                statements.doubt(id);
            }
        }
    }

    fn doubt_statements(&mut self) {
        if let Prepared::Shared(statements) = &mut self.prepared {
            statements.doubt_all();
        }
    }
}
