//! Prepared statements have one set of names, whether SQL gives them or a Parse (manual: PREPARE, "Notes"). A client's command in SQL about
//! a name that it has given to a Parse is said with the name that the statement has on the server.

use super::expected::{Expected, Own};
use super::{ClientSide, Conversation, Prepared};
use crate::Watch;
use crate::statements::{ClientStatements, Forgotten, Standing, Statement, write_close};
use sql::{All, Effect, Suspicion};
use std::sync::Arc;

/// What a Query becomes.
pub(super) struct Renamed {
    pub sql: Vec<u8>,
    /// What running it may do.
    pub suspicion: Suspicion,
    /// The name that it drops, unless it fails.
    pub forgotten: Option<Box<Forgotten>>,
}

impl Conversation {
    /// `None`: the text is about no name that a Parse has given. Else the statement is made sure to be on the server.
    pub(super) fn rename_in_query(
        &mut self,
        client: &mut ClientStatements,
        watch: &Watch,
        text: &[u8],
        to_server: &mut Vec<u8>,
    ) -> Option<Renamed> {
        if client.is_empty() || matches!(self.prepared, Prepared::Raw) {
            return None;
        }
        let effect = watch.effect(text)?;
        let name = match &effect {
            Effect::Execute { name, .. } | Effect::Prepare { name, .. } => name,
            Effect::Deallocate(All::One(name)) => name,
            _ => return None,
        };
        let statement = Arc::clone(client.named(name)?);
        let server_name = statement.server_name();
        let mut renamed = Renamed {
            sql: Vec::new(),
            suspicion: Suspicion::empty(),
            forgotten: None,
        };
        match &effect {
            Effect::Execute { arguments, .. } if begins_with(text, b"execute") => {
                renamed.sql = [b"EXECUTE ", server_name, b" ", arguments].concat();
                renamed.suspicion = watch.statement(&statement);
            }
            // Refused by the server, since it has the name.
            Effect::Prepare { .. } => {
                renamed.sql = [b"PREPARE ", server_name, b" AS SELECT 1"].concat();
            }
            Effect::Deallocate(_) => {
                self.names_change();
                renamed.sql = [b"DEALLOCATE ", server_name].concat();
                renamed.forgotten = Some(Box::new(client.forget(name)));
            }
            _ => return None,
        }
        self.prepare_for_query(&statement, to_server);
        if let (Prepared::Shared(statements), Effect::Deallocate(_)) = (&mut self.prepared, &effect)
        {
            statements.doubt(statement.id);
        }
        Some(renamed)
    }

    /// Whether SQL's PREPARE has given the name, as far as is known before the next census.
    pub(super) fn is_prepared_in_sql(&self, client: &ClientSide<'_>, name: &[u8]) -> bool {
        let mut known = client.parameters.prepared().iter();
        let lately = self.evidence.iter().flat_map(|evidence| &evidence.prepared);
        known.any(|one| *one.name.as_bytes() == *name)
            || lately.into_iter().any(|one| **one == *name)
    }

    /// Before a simple Query: what is prepared gets a Sync of its own, as the server would otherwise ignore the Query after an error.
    fn prepare_for_query(&mut self, statement: &Arc<Statement>, to_server: &mut Vec<u8>) {
        let standing = self.standing(statement.id);
        let Prepared::Shared(statements) = &mut self.prepared else {
            return;
        };
        if standing == Standing::Prepared {
            return;
        }
        write_close(statement.id, to_server);
        while standing == Standing::Absent
            && let Some(evicted) = statements.evict()
        {
            write_close(evicted, to_server);
        }
        statements.insert(statement.id, self.progress.sent);
        statement.write_parse(statement.server_name(), to_server);
        wire::write::sync(to_server);
        self.expect(Expected::Own {
            own: Own::Prepare,
            failed: false,
        });
    }
}

/// The prepared statement that a command in SQL is about.
pub(super) fn named_in_query(watch: &Watch, text: &[u8]) -> Option<Vec<u8>> {
    match watch.effect(text)? {
        Effect::Execute { name, .. }
        | Effect::Prepare { name, .. }
        | Effect::Deallocate(All::One(name)) => Some(name.into_bytes()),
        _ => None,
    }
}

fn begins_with(text: &[u8], word: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    text.get(..word.len())
        .is_some_and(|front| front.eq_ignore_ascii_case(word))
}
