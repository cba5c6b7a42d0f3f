//! The client's side of a conversation.

use super::expected::{Expected, Named, ParsedFor};
use super::{Aside, Conversation, CopyIn, Flow, Passage, Prepared, Unnamed, UnnamedIs, Violation};
use crate::statements::{ClientStatements, Statement, StatementCache};
use std::sync::Arc;
use wire::Header;
use wire::backend::TransactionStatus;
use wire::frontend::{self, Bind, Close, Describe, Parse, Target, tag};

/// What a client has prepared, and the pool's cache of statement texts.
pub struct ClientSide<'a> {
    pub statements: &'a mut ClientStatements,
    pub cache: &'a mut StatementCache,
}

impl Conversation {
    /// A message of the client that holds this server connection, except Terminate. `body` is what has arrived of its body.
    ///
    /// # Errors
    /// A message that cannot be understood where Weir has to, or one that clients do not send.
    #[inline]
    pub fn client_message(
        &mut self,
        client: ClientSide<'_>,
        header: Header,
        body: &[u8],
        aside: &mut Aside,
    ) -> Result<Passage, Violation> {
        if self.flow == Flow::Skipping && header.tag != tag::SYNC {
            return Ok(Passage::WHOLE); // the server ignores it as well
        }
        match header.tag {
            tag::QUERY => self.expect(Expected::Query),
            tag::EXECUTE => self.expect(Expected::Execute),
            tag::SYNC => self.sync(),
            tag::FLUSH => self.answer_synthetic(&mut aside.to_client),
            tag::FUNCTION_CALL => self.expect(Expected::FunctionCall),
            tag::COPY_DATA => {}
            tag::COPY_DONE | tag::COPY_FAIL => self.copy_end(),
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::CLOSE => {
                return self.statement_message(client, header, body, aside);
            }
            other => return Err(Violation::UnexpectedMessage(other)),
        }
        Ok(Passage::WHOLE)
    }

    /// While COPY data is asked for, the server ignores Sync. (Protocol: "COPY Operations")
    fn sync(&mut self) {
        if self.copy_in == CopyIn::Running {
            self.expect(Expected::IgnoredSync);
        } else {
            self.flow = Flow::Normal;
            self.expect(Expected::Sync);
        }
    }

    fn copy_end(&mut self) {
        match self.copy_in {
            CopyIn::Running => self.copy_in = CopyIn::Ended,
            CopyIn::Ended => {}
            CopyIn::No if self.expected.is_empty() => {}
            CopyIn::No => self.expect(Expected::CopyEnd),
        }
    }

    fn statement_message(
        &mut self,
        client: ClientSide<'_>,
        header: Header,
        body: &[u8],
        aside: &mut Aside,
    ) -> Result<Passage, Violation> {
        if matches!(self.prepared, Prepared::Raw) {
            self.expect(match header.tag {
                tag::PARSE => Expected::RawParse,
                tag::BIND => Expected::Bind,
                tag::DESCRIBE => Expected::Describe,
                _ => Expected::Close,
            });
            return Ok(Passage::WHOLE);
        }
        if header.tag == tag::BIND {
            return self.bind(client.statements, header, body, aside);
        }
        let Some(body) = body.get(..header.body()) else { return Ok(Passage::Incomplete) };
        match header.tag {
            tag::PARSE => self.parse(client, header, Parse::parse(body)?, aside),
            tag::DESCRIBE => self.describe(client.statements, header, Describe::parse(body)?, aside),
            _ => self.close(client.statements, header, Close::parse(body)?, aside),
        }
    }

    fn parse(&mut self, client: ClientSide<'_>, header: Header, parse: Parse<'_>, aside: &mut Aside) -> Result<Passage, Violation> {
        let statement = client.cache.intern(parse.text, parse.param_types);
        if parse.name.is_empty() {
            self.unnamed_is = UnnamedIs::TheClients;
            self.expect_parse(&statement, ParsedFor::ClientUnnamed);
            return Ok(Passage::WHOLE);
        }
        if let Some(known) = client.statements.named(parse.name) {
            // The server refuses a name that it has, and fails the transaction with it, as it should.
            let known = Arc::clone(known);
            self.ensure_prepared(&known, &mut aside.to_server);
            statement.write_parse(known.server_name(), &mut aside.to_server);
            self.expect_parse(&statement, ParsedFor::Duplicate);
        } else {
            client.statements.insert(parse.name, Arc::clone(&statement));
            self.parse_named(parse.name, &statement, aside);
        }
        Ok(Passage::Pass { skip: header.total() })
    }

    /// A statement that is prepared already costs the server nothing. In a failed transaction the server itself has to refuse it.
    fn parse_named(&mut self, name: &[u8], statement: &Arc<Statement>, aside: &mut Aside) {
        let Prepared::Shared(statements) = &mut self.prepared else { return };
        let known = statements.touch(statement.id);
        if known && self.status != TransactionStatus::Failed {
            let named = Named { name: name.into(), statement: Arc::clone(statement) };
            self.expect(Expected::SyntheticParse(Box::new(named)));
            return;
        }
        let to_close = if known { Some(statement.id) } else { statements.insert(statement.id) };
        self.close_evicted(to_close, &mut aside.to_server);
        statement.write_parse(statement.server_name(), &mut aside.to_server);
        self.expect_parse(statement, ParsedFor::ClientNamed(name.into()));
    }

    #[inline]
    fn bind(
        &mut self,
        client: &mut ClientStatements,
        header: Header,
        body: &[u8],
        aside: &mut Aside,
    ) -> Result<Passage, Violation> {
        let body = body.get(..header.body()).unwrap_or(body);
        let Some((portal, name, prefix)) = Bind::prefix(body)? else {
            if body.len() == header.body() {
                return Err(wire::WireError::Unterminated.into());
            }
            return Ok(Passage::Incomplete);
        };
        let skip = match client.named(name) {
            _ if name.is_empty() => {
                self.settle_unnamed(client, &mut aside.to_server);
                0
            }
            Some(statement) => {
                self.ensure_prepared(statement, &mut aside.to_server);
                let server_name = statement.server_name();
                let len = header.len as usize + server_name.len() - name.len();
                aside.to_server.push(tag::BIND);
                aside.to_server.extend_from_slice(&(len as u32).to_be_bytes());
                aside.to_server.extend_from_slice(portal);
                aside.to_server.push(0);
                aside.to_server.extend_from_slice(server_name);
                aside.to_server.push(0);
                Header::SIZE + prefix
            }
            None => 0, // made by SQL's PREPARE, or unknown: the server will say
        };
        self.expect(Expected::Bind);
        Ok(Passage::Pass { skip })
    }

    fn describe(
        &mut self,
        client: &mut ClientStatements,
        header: Header,
        describe: Describe<'_>,
        aside: &mut Aside,
    ) -> Result<Passage, Violation> {
        let mut skip = 0;
        if describe.target == Target::Statement {
            if describe.name.is_empty() {
                self.settle_unnamed(client, &mut aside.to_server);
            } else if let Some(statement) = client.named(describe.name) {
                self.ensure_prepared(statement, &mut aside.to_server);
                wire::write::describe(&mut aside.to_server, Target::Statement, statement.server_name());
                skip = header.total();
            }
        }
        self.expect(Expected::Describe);
        Ok(Passage::Pass { skip })
    }

    fn close(
        &mut self,
        client: &mut ClientStatements,
        header: Header,
        close: Close<'_>,
        aside: &mut Aside,
    ) -> Result<Passage, Violation> {
        let _ = &aside;
        if close.target == Target::Statement
            && let Some(statement) = client.remove(close.name)
        {
            self.expect(Expected::SyntheticClose(Box::new(Named { name: close.name.into(), statement })));
            return Ok(Passage::Pass { skip: header.total() });
        }
        if close.target == Target::Statement && close.name.is_empty() {
            client.unnamed = None;
            self.unnamed = Unnamed::Unknown;
        }
        self.expect(Expected::Close);
        Ok(Passage::WHOLE)
    }

    /// Before the first use of the unnamed statement in a lease: makes the server's unnamed statement the client's, be it none.
    fn settle_unnamed(&mut self, client: &ClientStatements, to_server: &mut Vec<u8>) {
        if self.unnamed_is == UnnamedIs::TheClients {
            return;
        }
        self.unnamed_is = UnnamedIs::TheClients;
        match (&client.unnamed, &self.unnamed) {
            (Some(statement), Unnamed::Is(id)) if statement.id == *id => {}
            (Some(statement), _) => {
                statement.write_parse(b"", to_server);
                self.expect_parse(statement, ParsedFor::PoolerUnnamed);
            }
            (None, Unnamed::Nothing) => {}
            (None, _) => {
                wire::write::close(to_server, frontend::Target::Statement, b"");
                self.expect(Expected::CloseUnnamed);
            }
        }
    }
}

/// Whether a message that reaches an idle client's session needs a server connection at all. Late COPY messages do not: the server would
/// ignore them too. (Protocol: "COPY Operations")
pub fn needs_server(tag: u8) -> bool {
    !matches!(tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::TERMINATE)
}

