//! What a server connection still owes, in the order in which it will be answered.

use crate::statements::{ClientStatements, ServerStatements, Statement, StatementId};
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
}

/// One message that has been sent to the server (or withheld from it), and what will answer it.
#[derive(Debug)]
pub(super) enum Expected {
    /// Any number of results, then ReadyForQuery.
    Query,
    /// A result, then ReadyForQuery.
    FunctionCall,
    /// ReadyForQuery.
    Sync,
    /// A Sync that the server may have read, and ignored, as a part of COPY data.
    IgnoredSync,
    /// CopyDone or CopyFail sent before the server asked for data; not answered.
    CopyEnd,
    /// ParseComplete.
    Parse(Box<Parsed>),
    /// ParseComplete of a statement that is passed on as it is.
    RawParse,
    /// BindComplete.
    Bind,
    /// ParameterDescription, then RowDescription or NoData; or one of the latter.
    Describe,
    /// Rows, then CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute,
    /// CloseComplete.
    Close,
    /// CloseComplete, kept from the client: a statement that had to go for another.
    CloseEvicted(Box<StatementId>),
    /// CloseComplete, kept from the client: another client's unnamed statement.
    CloseUnnamed,
    /// A Parse that the server did not need to see.
    SyntheticParse(Box<Named>),
    /// A Close that the server must not see, since others use the statement.
    SyntheticClose(Box<Named>),
    Own { own: Own, failed: bool },
}

#[derive(Debug)]
pub(super) struct Parsed {
    pub statement: Arc<Statement>,
    pub parsed_for: ParsedFor,
}

/// Who asked for a Parse.
#[derive(Debug)]
pub(super) enum ParsedFor {
    /// The client, under this name.
    ClientNamed(Box<[u8]>),
    ClientUnnamed,
    /// The client, under a name it has given already: the server will say so.
    Duplicate,
    /// The pooler; the reply is kept from the client.
    PoolerNamed,
    PoolerUnnamed,
}

#[derive(Debug)]
pub(super) struct Named {
    pub name: Box<[u8]>,
    pub statement: Arc<Statement>,
}

impl Expected {
    /// Part of an extended conversation whose Sync has not been sent if this is the last message.
    pub fn awaits_sync(&self) -> bool {
        !matches!(
            self,
            Expected::Query | Expected::FunctionCall | Expected::Sync | Expected::IgnoredSync | Expected::Own { .. }
        )
    }

    /// An error ends the whole up to ReadyForQuery, rather than making the server skip to the next Sync.
    pub fn ends_with_ready(&self) -> bool {
        matches!(self, Expected::Query | Expected::FunctionCall | Expected::Sync | Expected::Own { .. })
    }

    /// Takes back what was noted when the message was sent: the server has refused or skipped it.
    /// Called from the last message to the first.
    pub fn undo(self, client: Option<&mut ClientStatements>, server: Option<&mut ServerStatements>) {
        match self {
            Expected::Parse(parsed) => {
                if matches!(parsed.parsed_for, ParsedFor::ClientNamed(_) | ParsedFor::PoolerNamed) {
                    server.map(|server| server.remove(parsed.statement.id));
                }
                if let (ParsedFor::ClientNamed(name), Some(client)) = (parsed.parsed_for, client) {
                    client.remove(&name);
                }
            }
            Expected::CloseEvicted(id) => {
                server.map(|server| server.restore(*id));
            }
            Expected::SyntheticParse(named) => {
                client.map(|client| client.remove(&named.name));
            }
            Expected::SyntheticClose(named) => {
                if let Some(client) = client {
                    client.insert(&named.name, named.statement);
                }
            }
            _ => {}
        }
    }
}
