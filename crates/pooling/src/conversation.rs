//! The conversation of one server connection with the client that holds it: which replies are owed, which of them the
//! client must not see, and what stands on the server. Everything that decides whether the connection may go to another
//! client is here.
//!
//! The relay shows each message's header (and as much of the body as has arrived) and gets back how many of its bytes
//! to leave out and what to send before the rest. Nearly every message passes unchanged, and the body of most is never looked at.

mod expected;
mod from_client;
mod from_server;

pub use expected::Own;
pub use from_client::ClientSide;
pub use from_server::Reply;

use crate::statements::{ClientStatements, ServerStatements, Statement, StatementId, write_close};
use expected::{Expected, Parsed, ParsedFor};
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
    Pass { skip: usize },
    /// More of the message is needed to decide.
    Incomplete,
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
    OwnDone { own: Own, failed: bool },
    /// The body is a ParameterStatus; it was passed on only if no query of the pooler's own is running.
    ParameterStatus { own: bool },
    /// The server dropped all that a session can set.
    SessionReset,
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

/// What is known of the server's unnamed statement.
#[derive(Clone, Debug)]
enum Unnamed {
    Nothing,
    Is(StatementId),
    Unknown,
}

/// Whether the server's unnamed statement is the client's in this lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UnnamedIs {
    SomebodyElses,
    TheClients,
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
    unnamed: Unnamed,
    unnamed_is: UnnamedIs,
    trust: Trust,
}

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
            unnamed: Unnamed::Nothing,
            unnamed_is: UnnamedIs::SomebodyElses,
            trust: Trust::Full,
        }
    }

    /// Another client begins.
    pub fn begin_lease(&mut self) {
        self.unnamed_is = UnnamedIs::SomebodyElses;
    }

    /// The transaction status that the server last reported.
    pub fn status(&self) -> TransactionStatus {
        self.status
    }

    /// The server has said that it is idle and owes no reply: the connection may go to another client.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.expected.is_empty()
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

    /// The server owes replies.
    pub fn is_busy(&self) -> bool {
        !self.expected.is_empty()
    }

    pub fn prepared_statements(&self) -> usize {
        match &self.prepared {
            Prepared::Shared(statements) => statements.len(),
            Prepared::Raw => 0,
        }
    }

    /// Sends a query of the pooler's own; its replies are kept from the client.
    pub fn own_query(&mut self, own: Own, sql: &[u8], to_server: &mut Vec<u8>) {
        wire::write::query(to_server, sql);
        self.expected.push_back(Expected::Own { own, failed: false });
    }

    /// Ends what a client that is gone has left open, so that the server comes back to ReadyForQuery: a COPY is failed, an extended
    /// conversation gets its Sync.
    pub fn wind_up(&mut self, to_server: &mut Vec<u8>) {
        if self.copy_in == CopyIn::Running {
            wire::write::copy_fail(to_server, b"client is gone");
            self.copy_in = CopyIn::Ended;
        }
        let awaits_sync = self.expected.back().is_some_and(Expected::awaits_sync) || self.flow == Flow::Skipping;
        if awaits_sync {
            wire::write::sync(to_server);
            self.expected.push_back(Expected::Sync);
            self.flow = Flow::Normal;
        }
    }

    fn expect(&mut self, expected: Expected) {
        self.expected.push_back(expected);
    }

    /// Makes sure that a statement is prepared under its server name. The Parse, and the Close of the statement that has to go for it, are
    /// the pooler's own: the client does not see their replies.
    fn ensure_prepared(&mut self, statement: &Arc<Statement>, to_server: &mut Vec<u8>) {
        let Prepared::Shared(statements) = &mut self.prepared else { return };
        if statements.touch(statement.id) {
            return;
        }
        let evicted = statements.insert(statement.id);
        self.close_evicted(evicted, to_server);
        statement.write_parse(statement.server_name(), to_server);
        self.expect_parse(statement, ParsedFor::PoolerNamed);
    }

    fn close_evicted(&mut self, evicted: Option<StatementId>, to_server: &mut Vec<u8>) {
        if let Some(id) = evicted {
            write_close(id, to_server);
            self.expect(Expected::CloseEvicted(Box::new(id)));
        }
    }

    fn expect_parse(&mut self, statement: &Arc<Statement>, parsed_for: ParsedFor) {
        self.expect(Expected::Parse(Box::new(Parsed { statement: Arc::clone(statement), parsed_for })));
    }

    /// Gives the replies that the pooler makes itself and whose turn has come.
    #[inline]
    fn answer_synthetic(&mut self, to_client: &mut Vec<u8>) {
        while let Some(Expected::SyntheticParse(_) | Expected::SyntheticClose(_)) = self.expected.front() {
            match self.expected.pop_front() {
                Some(Expected::SyntheticParse(_)) => wire::write::parse_complete(to_client),
                _ => wire::write::close_complete(to_client),
            }
        }
    }

    fn forget_all_statements(&mut self, client: Option<&mut ClientStatements>) {
        if let Prepared::Shared(statements) = &mut self.prepared {
            statements.clear();
        }
        if let Some(client) = client {
            let unnamed = client.unnamed.take();
            client.clear();
            client.unnamed = unnamed;
        }
    }
}
