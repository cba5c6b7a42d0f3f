//! The client's side of a conversation.

use super::errors::OUTDATED_NAME;
use super::expected::{Expected, Named, ParsedFor};
use super::sql_names::named_in_query;
use super::{Aside, Conversation, CopyIn, Flow, Passage, Prepared, Series, UnnamedIs, Violation};
use crate::Watch;
use crate::parameters::Parameters;
use crate::statements::{ClientStatements, Mark, Scope, Standing, Statement, StatementCache};
use crate::watch::{CENSUS, LOOKED_AT_MAX};
use sql::Suspicion;
use std::sync::Arc;
use wire::Header;
use wire::backend::TransactionStatus;
use wire::frontend::{Bind, Close, Describe, Execute, Parse, Target, tag};

/// What a client has prepared, and the pool's cache of statement texts.
pub struct ClientSide<'a> {
    pub statements: &'a mut ClientStatements,
    pub cache: &'a mut StatementCache,
    /// What is set on its session.
    pub parameters: &'a Arc<Parameters>,
    /// `None`: nobody else will use the server connection as it is.
    pub watch: Option<&'a Watch>,
    /// What makes a server connection listen to the channels that the client listens to through the shared listener, if there are any.
    pub recall: Option<&'a [u8]>,
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
            tag::QUERY => return Ok(self.query(client, header, body, aside)),
            tag::EXECUTE => return self.execute(client.statements, header, body),
            tag::SYNC => self.sync(),
            tag::FLUSH => self.flush(aside),
            tag::FUNCTION_CALL => {
                if client.watch.is_some() {
                    self.recall(client.recall, Suspicion::OPAQUE, &mut aside.to_server);
                    self.note(Suspicion::OPAQUE, b"(function call)");
                }
                self.expect(Expected::FunctionCall)
            }
            tag::COPY_DATA => {}
            tag::COPY_DONE | tag::COPY_FAIL => self.copy_end(),
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::CLOSE => {
                return self.statement_message(client, header, body, aside);
            }
            other => return Err(Violation::UnexpectedMessage(other)),
        }
        Ok(Passage::WHOLE)
    }

    #[inline]
    fn query(
        &mut self,
        client: ClientSide<'_>,
        header: Header,
        body: &[u8],
        aside: &mut Aside,
    ) -> Passage {
        let needed = match client.watch {
            Some(_) if header.body() <= LOOKED_AT_MAX => header.body(),
            _ => header.body().min(Scope::LOOK_AT),
        };
        let Some(front) = body.get(..needed) else {
            return Passage::Incomplete;
        };
        if let Some(watch) = client.watch {
            let whole = needed == header.body();
            let text = front.strip_suffix(b"\0").unwrap_or(front);
            let suspicion = if whole {
                watch.text(text)
            } else {
                Suspicion::OPAQUE | watch.text(text)
            };
            if suspicion.contains(Suspicion::PREPARED)
                && let Some(name) = named_in_query(watch, text)
                && self.waits_for_name(&name)
            {
                return Passage::Wait;
            }
            self.recall(client.recall, suspicion, &mut aside.to_server);
            if suspicion.contains(Suspicion::SEQUENCE_READ) {
                self.note_sequence_read(&mut aside.to_server);
            }
            if suspicion.contains(Suspicion::PREPARED) {
                return self.query_about_prepared(client, watch, header, text, aside);
            }
            self.note(suspicion, text);
        }
        self.expect_query(client.statements, front)
    }

    /// A Query is passed on as it is.
    #[inline]
    fn expect_query(&mut self, client: &mut ClientStatements, text: &[u8]) -> Passage {
        let forgotten = match (&self.prepared, Scope::of(text)) {
            (Prepared::Shared(_), Scope::DeallocatesAll) => Some(self.expect_deallocation(client)),
            _ => None,
        };
        self.own_unnamed(None);
        self.expect(Expected::Query(forgotten));
        Passage::WHOLE
    }

    /// A Query that may PREPARE, EXECUTE or DEALLOCATE.
    #[cold]
    fn query_about_prepared(
        &mut self,
        client: ClientSide<'_>,
        watch: &Watch,
        header: Header,
        text: &[u8],
        aside: &mut Aside,
    ) -> Passage {
        let renamed = self.rename_in_query(client.statements, watch, text, &mut aside.to_server);
        if let Some(renamed) = renamed {
            self.note(renamed.suspicion, text);
            wire::write::query(&mut aside.to_server, &renamed.sql);
            self.own_unnamed(None);
            self.expect(Expected::Query(renamed.forgotten));
            return Passage::Pass {
                skip: header.total(),
            };
        }
        self.note(watch.text_of(text, client.parameters.prepared()), text);
        self.expect_query(client.statements, text)
    }

    #[inline]
    fn execute(
        &mut self,
        client: &mut ClientStatements,
        header: Header,
        body: &[u8],
    ) -> Result<Passage, Violation> {
        let mut forgotten = None;
        if let Some(portal) = &self.deallocating_portal {
            let Some(body) = body.get(..header.body()) else {
                return Ok(Passage::Incomplete);
            };
            if Execute::parse(body)?.portal == &**portal {
                forgotten = Some(self.expect_deallocation(client));
            }
        }
        self.expect(Expected::Execute(forgotten));
        Ok(Passage::WHOLE)
    }

    /// While COPY data is asked for, the server ignores Sync. (Protocol: "COPY Operations")
    pub(super) fn sync(&mut self) {
        if self.copy_in == CopyIn::Running {
            self.expect(Expected::IgnoredSync);
        } else {
            self.flow = Flow::Normal;
            self.series = Series::Closed;
            self.expect(Expected::Sync);
        }
    }

    /// The server sends what it has. If the last of it is a reply that the pooler makes, which has to wait for the server's earlier ones,
    /// then a marker tells when they have come.
    fn flush(&mut self, aside: &mut Aside) {
        self.answer_synthetic(&mut aside.to_client);
        if self.expected.back().is_some_and(Expected::is_synthetic) {
            self.mark(&mut aside.to_server);
        }
    }

    pub(super) fn copy_end(&mut self) {
        match self.copy_in {
            CopyIn::Running => self.copy_in = CopyIn::Ended,
            _ if self.expected.is_empty() => {}
            CopyIn::No | CopyIn::Ended => self.expect(Expected::CopyEnd), // of a COPY that the server has not come to yet
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
            if let (Some(watch), tag::PARSE) = (client.watch, header.tag) {
                let Some(body) = body.get(..header.body()) else {
                    return Ok(Passage::Incomplete);
                };
                let text = Parse::parse(body)?.text;
                let suspicion = watch.text(text);
                self.recall(client.recall, suspicion, &mut aside.to_server);
                self.note(suspicion, text);
            }
            self.recall_unseen(client.recall, &mut aside.to_server);
            self.expect(match header.tag {
                tag::PARSE => Expected::RawParse,
                tag::BIND => Expected::Bind(Mark::NONE),
                tag::DESCRIBE => Expected::Describe(Mark::NONE),
                _ => Expected::Close,
            });
            return Ok(Passage::WHOLE);
        }
        if header.tag == tag::BIND {
            return self.bind(client, header, body, aside);
        }
        let Some(body) = body.get(..header.body()) else {
            return Ok(Passage::Incomplete);
        };
        match header.tag {
            tag::PARSE => self.parse(client, header, Parse::parse(body)?, aside),
            tag::DESCRIBE => self.describe(client, header, Describe::parse(body)?, aside),
            _ => self.close(client, header, Close::parse(body)?, aside),
        }
    }

    fn parse(
        &mut self,
        mut client: ClientSide<'_>,
        header: Header,
        parse: Parse<'_>,
        aside: &mut Aside,
    ) -> Result<Passage, Violation> {
        if !parse.name.is_empty() && self.waits_for_name(parse.name) {
            return Ok(Passage::Wait);
        }
        let statement = client
            .cache
            .intern(parse.text, parse.param_types, client.parameters);
        if let Some(watch) = client.watch {
            let suspicion = watch.statement(&statement);
            self.recall(client.recall, suspicion, &mut aside.to_server);
            if suspicion.contains(Suspicion::SEQUENCE_READ) {
                self.note_sequence_read(&mut aside.to_server);
            }
        }
        if parse.name.is_empty() {
            self.own_unnamed(Some(Arc::clone(&statement)));
            self.expect_parse(&statement, ParsedFor::ClientUnnamed);
            return Ok(Passage::WHOLE);
        }
        if self.is_prepared_in_sql(&client, parse.name) {
            self.note(Suspicion::PREPARED, parse.text);
            self.expect(Expected::RawParse); // the server refuses the name
            return Ok(Passage::WHOLE);
        }
        let known = self.prepared_for(&mut client, parse.name, &mut aside.to_server);
        if let Some(known) = known {
            // The server refuses a name that it has, and fails the transaction with it, as it should.
            statement.write_parse(known.server_name(), &mut aside.to_server);
            self.expect_parse(&statement, ParsedFor::Duplicate(parse.name.into()));
        } else {
            client
                .statements
                .insert(parse.name, Arc::clone(&statement), self.progress.sent);
            self.names_change();
            self.parse_named(parse.name, &statement, aside);
        }
        Ok(Passage::Pass {
            skip: header.total(),
        })
    }

    /// Whether the Parse that comes may find the transaction failed, so that the server itself has to refuse it: it has failed, or a
    /// segment that is not answered yet may fail in one.
    fn may_find_failure(&self) -> bool {
        match self.status {
            TransactionStatus::Failed => true,
            _ if self.progress.sent == self.progress.answered => false,
            TransactionStatus::InTransaction => true,
            TransactionStatus::Idle => self.expected.iter().any(Expected::is_execution),
        }
    }

    /// A statement that is prepared already costs the server nothing, unless the server may have to refuse it.
    fn parse_named(&mut self, name: &[u8], statement: &Arc<Statement>, aside: &mut Aside) {
        let standing = self.standing(statement.id);
        if standing == Standing::Prepared && !self.may_find_failure() {
            let named = Named {
                name: name.into(),
                statement: Arc::clone(statement),
                since: self.progress.sent,
            };
            return self.expect_synthetic(
                Expected::SyntheticParse(Box::new(named)),
                &mut aside.to_server,
            );
        }
        self.prepare(
            statement,
            standing,
            ParsedFor::ClientNamed(name.into()),
            &mut aside.to_server,
        );
    }

    #[inline]
    fn bind(
        &mut self,
        mut client: ClientSide<'_>,
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
        if self.waits_for_name(name) {
            return Ok(Passage::Wait);
        }
        if let Some(watch) = client.watch
            && !self.note_execution(watch, &client, name, (body, header), &mut aside.to_server)
        {
            return Ok(Passage::Incomplete);
        }
        let (mut scope, mut mark) = (Scope::Plain, Mark::NONE);
        let server_name = match self.used(&mut client, name, &mut aside.to_server) {
            _ if name.is_empty() => {
                scope = self.settle_unnamed(client, &mut aside.to_server);
                None
            }
            Some((statement, server_name)) => {
                (scope, mark) = (statement.scope(), statement.id.mark());
                Some(server_name)
            }
            None => None, // made by SQL's PREPARE, or unknown: the server will say
        };
        let mut skip = 0;
        if let Some(server_name) = server_name {
            let len = header.len as usize + server_name.len() - name.len();
            let to_server = &mut aside.to_server;
            to_server.push(tag::BIND);
            to_server.extend_from_slice(&(len as u32).to_be_bytes());
            to_server.extend_from_slice(portal);
            to_server.push(0);
            to_server.extend_from_slice(server_name);
            to_server.push(0);
            skip = Header::SIZE + prefix;
        }
        self.note_portal(portal, scope);
        self.expect(Expected::Bind(mark));
        Ok(Passage::Pass { skip })
    }

    /// The statement that the client calls so, which is on the server when what goes to the server has been read. One that has to be prepared is read by
    /// what is set on the session now: who has changed that gets it so, and others do not get it from here.
    #[inline]
    fn prepared_for<'a>(
        &mut self,
        client: &'a mut ClientSide<'_>,
        name: &[u8],
        to_server: &mut Vec<u8>,
    ) -> Option<&'a Arc<Statement>> {
        let known = client.statements.named(name)?;
        if self.standing(known.id) != Standing::Prepared {
            let renewed = if client.cache.is_outdated(known) {
                Arc::clone(known)
            } else {
                client.cache.renew(known, client.parameters)
            };
            self.ensure_prepared(&renewed, to_server);
            client.statements.replace(name, renewed);
        }
        client.statements.named(name)
    }

    /// The statement that the client calls so, and the name by which the server is to use it: one that it does not know if it has to refuse.
    #[inline]
    fn used<'a>(
        &mut self,
        client: &'a mut ClientSide<'_>,
        name: &[u8],
        to_server: &mut Vec<u8>,
    ) -> Option<(&'a Arc<Statement>, &'a [u8])> {
        if client.cache.knows_outdated() && self.status != TransactionStatus::Failed {
            let known = client.statements.named(name)?;
            if client.cache.is_outdated(known) {
                return client
                    .statements
                    .named(name)
                    .map(|statement| (statement, OUTDATED_NAME));
            }
        }
        let statement = self.prepared_for(client, name, to_server)?;
        Some((statement, statement.server_name()))
    }

    /// A statement is going to be executed. False if more of the Bind is needed: values that are bound may name custom parameters.
    #[inline]
    fn note_execution(
        &mut self,
        watch: &Watch,
        client: &ClientSide<'_>,
        name: &[u8],
        (body, header): (&[u8], Header),
        to_server: &mut Vec<u8>,
    ) -> bool {
        let statement = if name.is_empty() {
            self.wanted_unnamed(client.statements)
        } else {
            client.statements.named(name)
        };
        let Some(statement) = statement else {
            return true; // made by SQL's PREPARE: looked at then
        };
        let suspicion = watch.statement(statement);
        if !suspicion.intersects(CENSUS | Suspicion::SEQUENCE_READ) && client.recall.is_none() {
            return true;
        }
        let values_count = suspicion.intersects(CENSUS);
        if values_count && body.len() < header.body() && header.body() <= LOOKED_AT_MAX {
            return false;
        }
        let statement = Arc::clone(statement);
        self.recall(client.recall, suspicion, to_server);
        if suspicion.contains(Suspicion::SEQUENCE_READ) {
            self.note_sequence_read(to_server);
        }
        self.note(suspicion, statement.text());
        if let Some(evidence) = &mut self.evidence {
            evidence.mention_values(body);
        }
        true
    }

    #[inline]
    fn note_portal(&mut self, portal: &[u8], scope: Scope) {
        match (scope, &self.deallocating_portal) {
            (Scope::DeallocatesAll, _) => self.deallocating_portal = Some(portal.into()),
            (Scope::Plain, Some(known)) if **known == *portal => self.deallocating_portal = None,
            _ => {}
        }
    }

    fn describe(
        &mut self,
        mut client: ClientSide<'_>,
        header: Header,
        describe: Describe<'_>,
        aside: &mut Aside,
    ) -> Result<Passage, Violation> {
        let (mut skip, mut mark) = (0, Mark::NONE);
        if describe.target == Target::Statement {
            if self.waits_for_name(describe.name) {
                return Ok(Passage::Wait);
            }
            self.recall_unseen(client.recall, &mut aside.to_server);
            if describe.name.is_empty() {
                self.settle_unnamed(client, &mut aside.to_server);
            } else if let Some((statement, server_name)) =
                self.used(&mut client, describe.name, &mut aside.to_server)
            {
                wire::write::describe(&mut aside.to_server, Target::Statement, server_name);
                mark = statement.id.mark();
                skip = header.total();
            }
        }
        self.expect(Expected::Describe(mark));
        Ok(Passage::Pass { skip })
    }

    fn close(
        &mut self,
        client: ClientSide<'_>,
        header: Header,
        close: Close<'_>,
        aside: &mut Aside,
    ) -> Result<Passage, Violation> {
        if close.target == Target::Statement && self.waits_for_name(close.name) {
            return Ok(Passage::Wait);
        }
        self.recall_unseen(client.recall, &mut aside.to_server);
        if close.target == Target::Statement && close.name.is_empty() {
            self.own_unnamed(None);
            self.expect(Expected::CloseUnnamed);
            return Ok(Passage::WHOLE);
        }
        if close.target == Target::Statement
            && let Some(statement) = client.statements.remove(close.name)
        {
            self.names_change();
            let named = Named {
                name: close.name.into(),
                statement,
                since: self.progress.sent,
            };
            self.expect_synthetic(
                Expected::SyntheticClose(Box::new(named)),
                &mut aside.to_server,
            );
            return Ok(Passage::Pass {
                skip: header.total(),
            });
        }
        self.expect(Expected::Close);
        Ok(Passage::WHOLE)
    }

    /// The client makes or drops its unnamed statement itself.
    #[inline]
    fn own_unnamed(&mut self, statement: Option<Arc<Statement>>) {
        self.unnamed_is = UnnamedIs::TheClients {
            statement,
            since: self.progress.sent,
        };
    }

    /// What the client means by its unnamed statement.
    #[inline]
    fn wanted_unnamed<'a>(&'a self, client: &'a ClientStatements) -> Option<&'a Arc<Statement>> {
        match &self.unnamed_is {
            UnnamedIs::TheClients { statement, .. } => statement.as_ref(),
            UnnamedIs::SomebodyElses => client.unnamed.as_ref(),
        }
    }

    /// Before a use of the unnamed statement: makes the server's unnamed statement the client's, be it none. Once in a lease; and again if
    /// an error could have skipped what was sent for that.
    fn settle_unnamed(&mut self, client: ClientSide<'_>, to_server: &mut Vec<u8>) -> Scope {
        let mut wanted = match &self.unnamed_is {
            UnnamedIs::TheClients { statement, since } if self.progress.covers(*since) => {
                return scope_of(statement.as_ref());
            }
            _ => self.wanted_unnamed(client.statements).cloned(),
        };
        let in_place = matches!(self.unnamed_is, UnnamedIs::SomebodyElses)
            && wanted.as_ref().map(|statement| statement.id) == self.unnamed;
        if !in_place {
            wanted = wanted.map(|statement| client.cache.renew(&statement, client.parameters));
            self.replace_unnamed(wanted.as_ref(), to_server);
        }
        let scope = scope_of(wanted.as_ref());
        self.own_unnamed(wanted);
        scope
    }

    fn replace_unnamed(&mut self, wanted: Option<&Arc<Statement>>, to_server: &mut Vec<u8>) {
        match wanted {
            Some(statement) => {
                statement.write_parse(b"", to_server);
                self.expect_parse(statement, ParsedFor::PoolerUnnamed);
            }
            None => {
                wire::write::close(to_server, Target::Statement, b"");
                self.expect(Expected::DropUnnamed);
            }
        }
    }
}

fn scope_of(statement: Option<&Arc<Statement>>) -> Scope {
    statement.map_or(Scope::Plain, |statement| statement.scope())
}
