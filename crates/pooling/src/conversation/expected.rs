//! What a server connection still owes, in the order in which it will be answered.

use crate::statements::{
    ClientStatements, Forgotten, Mark, Segment, ServerStatements, Statement, StatementId,
};
use std::sync::Arc;

/// A query of the pooler's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own {
    /// Puts a client's parameters on the server.
    Replay,
    /// server_check_query: is the server still there?
    Check,
    /// server_reset_query.
    Reset,
    /// Ends the transaction of a client that is gone.
    Rollback,
    /// What does the session hold?
    Census,
    /// DISCARD SEQUENCES: their values are another client's.
    DropSequences,
    /// Which functions and relations reach session state?
    Catalog,
    /// A Parse with a Sync of its own.
    Prepare,
    /// Listens to a client's channels for it.
    Recall,
    /// Tells where in the sequence of notifications the shared listener takes over.
    Mark,
    /// Listens to nothing any more.
    Unlisten,
}

/// One message that has been sent to the server (or withheld from it), and what will answer it.
#[derive(Debug)]
pub(super) enum Expected {
    /// Any number of results, then ReadyForQuery.
    Query(Option<Box<Forgotten>>),
    /// A result, then ReadyForQuery.
    FunctionCall,
    /// ReadyForQuery.
    Sync,
    /// ReadyForQuery, kept from the client: of a segment that is said again.
    HiddenSync,
    /// A Sync that the server may have read, and ignored, as a part of COPY data.
    IgnoredSync,
    /// CopyDone or CopyFail sent before the server asked for data; not answered.
    CopyEnd,
    /// ParseComplete.
    Parse(Box<Parsed>),
    /// ParseComplete of a statement that is passed on as it is.
    RawParse,
    /// BindComplete; the client's statement that it is of.
    Bind(Mark),
    /// BindComplete, kept from the client, which has got it already.
    HiddenBind,
    /// ParameterDescription, then RowDescription or NoData; or one of the latter. The client's statement that it is about.
    Describe(Mark),
    /// Rows, then CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute(Option<Box<Forgotten>>),
    /// CloseComplete.
    Close,
    /// CloseComplete of the client's unnamed statement.
    CloseUnnamed,
    /// CloseComplete, kept from the client: a statement that had to go for another, or that is parsed anew.
    CloseShared(Box<StatementId>),
    /// CloseComplete, kept from the client: another client's unnamed statement.
    DropUnnamed,
    /// CloseComplete, kept from the client: of nothing.
    Marker,
    /// A Parse that the server did not need to see.
    SyntheticParse(Box<Named>),
    /// A Close that the server must not see, since others use the statement.
    SyntheticClose(Box<Named>),
    Own {
        own: Own,
        failed: bool,
    },
}

#[derive(Debug)]
pub(super) struct Parsed {
    pub statement: Arc<Statement>,
    pub parsed_for: ParsedFor,
    pub since: Segment,
}

/// Who asked for a Parse.
#[derive(Debug)]
pub(super) enum ParsedFor {
    /// The client, under this name.
    ClientNamed(Box<[u8]>),
    ClientUnnamed,
    /// The client, under a name it has given already: the server will say so.
    Duplicate(Box<[u8]>),
    /// The pooler; the reply is kept from the client.
    PoolerNamed,
    PoolerUnnamed,
}

impl ParsedFor {
    fn given_name(&self) -> Option<&[u8]> {
        match self {
            ParsedFor::ClientNamed(name) => Some(name),
            _ => None,
        }
    }

    fn is_the_poolers(&self) -> bool {
        matches!(self, ParsedFor::PoolerNamed | ParsedFor::PoolerUnnamed)
    }

    fn hidden(self) -> ParsedFor {
        match self {
            ParsedFor::ClientUnnamed => ParsedFor::PoolerUnnamed,
            ParsedFor::ClientNamed(_) => ParsedFor::PoolerNamed,
            other => other,
        }
    }

    /// The name that the client spoke of.
    pub fn meant(&self) -> Option<&[u8]> {
        match self {
            ParsedFor::ClientNamed(name) | ParsedFor::Duplicate(name) => Some(name),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Named {
    pub name: Box<[u8]>,
    pub statement: Arc<Statement>,
    pub since: Segment,
}

impl Expected {
    /// ReadyForQuery answers it, or the server reads it as a part of COPY data: what is sent afterwards belongs to another segment.
    #[inline]
    pub fn ends_segment(&self) -> bool {
        self.ends_with_ready() || matches!(self, Expected::IgnoredSync)
    }

    /// An error ends the whole up to ReadyForQuery, rather than making the server skip to the next Sync.
    #[inline]
    pub fn ends_with_ready(&self) -> bool {
        matches!(
            self,
            Expected::Query(_) | Expected::FunctionCall | Expected::Own { .. }
        ) || self.is_sync()
    }

    #[inline]
    pub fn is_sync(&self) -> bool {
        matches!(self, Expected::Sync | Expected::HiddenSync)
    }

    /// The client has said it, and waits for the reply.
    pub fn is_visible(&self) -> bool {
        match self {
            Expected::Parse(parsed) => !parsed.parsed_for.is_the_poolers(),
            Expected::HiddenSync
            | Expected::HiddenBind
            | Expected::IgnoredSync
            | Expected::CopyEnd
            | Expected::CloseShared(_)
            | Expected::DropUnnamed
            | Expected::Marker
            | Expected::Own { .. } => false,
            _ => true,
        }
    }

    /// The same, of which the client has got the reply already; `None` if the server is not asked.
    pub fn hidden(self) -> Option<Expected> {
        Some(match self {
            Expected::Parse(parsed) => Expected::Parse(Box::new(Parsed {
                parsed_for: parsed.parsed_for.hidden(),
                ..*parsed
            })),
            Expected::Bind(_) => Expected::HiddenBind,
            Expected::Close => Expected::Marker,
            Expected::CloseUnnamed => Expected::DropUnnamed,
            synthetic if synthetic.is_synthetic() => return None,
            other => other,
        })
    }

    /// The server has not seen it.
    #[inline]
    pub fn is_synthetic(&self) -> bool {
        matches!(
            self,
            Expected::SyntheticParse(_) | Expected::SyntheticClose(_)
        )
    }

    /// The server keeps a transaction open for it until a Sync comes.
    #[inline]
    pub fn opens_series(&self) -> bool {
        !self.ends_segment() && !self.is_synthetic() && !matches!(self, Expected::CopyEnd)
    }

    /// The server gives rows, or takes or gives COPY data, for it.
    #[inline]
    pub fn is_execution(&self) -> bool {
        matches!(self, Expected::Query(_) | Expected::Execute(_))
    }

    /// The client's name that it gives to a statement.
    pub fn given_name(&self) -> Option<&[u8]> {
        match self {
            Expected::Parse(parsed) => parsed.parsed_for.given_name(),
            Expected::SyntheticParse(named) => Some(&named.name),
            _ => None,
        }
    }

    /// Whether the client has a statement of this name depends on the answer.
    pub fn decides_about(&self, name: &[u8]) -> bool {
        match self {
            Expected::SyntheticClose(named) => *named.name == *name,
            Expected::Query(forgotten) | Expected::Execute(forgotten) => forgotten.is_some(),
            other => other.given_name() == Some(name),
        }
    }

    /// Takes back what was noted when the message was sent: the server has refused or skipped it.
    /// Called from the last message to the first.
    pub fn undo(
        self,
        client: Option<&mut ClientStatements>,
        server: Option<&mut ServerStatements>,
    ) {
        match (self, client, server) {
            (Expected::Parse(parsed), client, server) => undo_parse(*parsed, client, server),
            (Expected::CloseShared(id), _, Some(server)) => server.doubt(*id),
            (Expected::SyntheticParse(named), Some(client), _) => {
                client.take_back(&named.name, named.since)
            }
            (Expected::SyntheticClose(named), Some(client), _) => {
                client.put_back(&named.name, named.statement, named.since)
            }
            (
                Expected::Query(Some(forgotten)) | Expected::Execute(Some(forgotten)),
                Some(client),
                _,
            ) => {
                client.remember(*forgotten);
            }
            _ => {}
        }
    }
}

fn undo_parse(
    parsed: Parsed,
    client: Option<&mut ClientStatements>,
    server: Option<&mut ServerStatements>,
) {
    let Parsed {
        statement,
        parsed_for,
        since,
    } = parsed;
    if let (ParsedFor::ClientNamed(_) | ParsedFor::PoolerNamed, Some(server)) =
        (&parsed_for, server)
    {
        server.take_back(statement.id, since);
    }
    if let (ParsedFor::ClientNamed(name), Some(client)) = (parsed_for, client) {
        client.take_back(&name, since);
    }
}
