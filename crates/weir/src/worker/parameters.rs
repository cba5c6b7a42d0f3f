//! What is set on a session changes: the server reports it, a RESET undoes it, a replay fails.

use super::Worker;
use pooling::Parameters;
use pooling::conversation::{Aside, Own};
use pooling::parameters::{Origin, Parameter};
use settings::PoolMode;
use std::sync::Arc;
use wire::SqlState;
use wire::backend::{ErrorFields, ParameterStatus};

impl Worker {
    /// What the session had set is undone: `left` says what remains.
    pub(super) fn was_reset(&mut self, index: usize, left: fn(&Parameters) -> Parameters) {
        let server = &mut self.servers[index];
        server.parameters = self.shared.interner.intern(left(&server.parameters));
        server.went_back = server.client().map(|_| Vec::new());
    }

    /// DISCARD ALL: the client is back at what it was greeted with, also where the server has had that value all the time and so says nothing.
    pub(super) fn session_reset(&mut self, index: usize) {
        self.was_reset(index, Parameters::bare);
        let server = &mut self.servers[index];
        let (Some(client), Some(went_back)) = (server.client(), &mut server.went_back) else {
            return;
        };
        let client = &mut self.clients[client];
        let mut parameters = (*client.parameters).clone();
        let reported = |entry: &&Parameter| entry.is_reported_setting();
        for entry in client.at_login.iter().filter(reported) {
            if parameters.value(&entry.name) != Some(&entry.value) {
                parameters = parameters.with(&entry.name, &entry.value, Origin::Reported);
                went_back.push(entry.name.clone());
            }
        }
        client.parameters = self.shared.interner.intern(parameters);
    }

    /// RESET and DISCARD ALL put parameters back to what the server connection logged in with. The client means what it asked for itself
    /// when it logged in: it hears so after the server's word, and the next lease puts it on the server. In session mode there is none.
    pub(super) fn end_reset(&mut self, index: usize, aside: &mut Aside) {
        let server = &mut self.servers[index];
        let (Some(went_back), Some(client)) = (server.went_back.take(), server.client()) else {
            return;
        };
        let parameters = &self.clients[client].parameters;
        for name in &went_back {
            let value = parameters.value(name).unwrap_or_default();
            wire::write::parameter_status(&mut aside.to_client, name.as_bytes(), value.as_bytes());
        }
        let keeps_lease = server.pool.settings.load().mode == PoolMode::Session;
        if keeps_lease
            && server.conversation.is_settled()
            && !Arc::ptr_eq(parameters, &server.parameters)
        {
            self.replay(index, client);
        }
    }

    /// A parameter of the client's cannot be put on a server connection: on a connection of its own it would not have got in.
    pub(super) fn own_failed(&mut self, index: usize, own: Own, body: &[u8]) {
        let fields = ErrorFields::parse(body).ok();
        let sqlstate = fields
            .as_ref()
            .and_then(ErrorFields::sqlstate)
            .unwrap_or(SqlState::PROTOCOL_VIOLATION);
        let text = fields
            .as_ref()
            .and_then(|fields| fields.get(b'M'))
            .unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        if let Some(reading) = self.servers[index].reading.as_mut() {
            return reading.fail(&text); // the control thread says so in the log
        }
        tracing::warn!(
            server = self.servers[index].id,
            ?own,
            "the server refused the pooler's own query: {text}"
        );
        if own == Own::Replay {
            self.replay_failed(index, sqlstate, &text);
        }
    }

    /// The replay, one Query, has been undone as a whole. The client goes; its first message is cleaned up like any abandoned work.
    fn replay_failed(&mut self, index: usize, sqlstate: SqlState, text: &str) {
        let server = &mut self.servers[index];
        let client = server.client();
        if let Some(before) = server.before_replay.take() {
            server.parameters = before;
        }
        if let Some(client) = client {
            self.dismiss(client, sqlstate, text);
        }
    }

    /// A reported parameter has changed: on the server connection, and for the client that holds it.
    pub(super) fn on_parameter(&mut self, index: usize, body: &[u8], own: bool, aside: &mut Aside) {
        let Ok(ParameterStatus { name, value }) = ParameterStatus::parse(body) else {
            return;
        };
        let (Ok(name), Ok(value)) = (std::str::from_utf8(name), std::str::from_utf8(value)) else {
            return;
        };
        let server = &mut self.servers[index];
        if server.parameters.value(name) != Some(value) {
            server.parameters =
                self.shared
                    .interner
                    .intern(server.parameters.with(name, value, Origin::Reported));
        }
        if name == "session_authorization" {
            let changed = value != &*server.pool.server_user;
            server.blemish = changed.then_some("a client has changed its session authorization");
        }
        let Some(client) = server.client() else {
            return;
        };
        let client = &mut self.clients[client];
        let mut value = value;
        if let Some(went_back) = &mut server.went_back
            && server.at_login.value(name) == Some(value)
            && let Some(own_value) = client.at_login.value(name)
            && own_value != value
        {
            went_back.push(name.into());
            value = own_value;
        }
        if client.parameters.value(name) != Some(value) {
            client.parameters =
                self.shared
                    .interner
                    .intern(client.parameters.with(name, value, Origin::Reported));
            if own {
                wire::write::parameter_status(
                    &mut aside.to_client,
                    name.as_bytes(),
                    value.as_bytes(),
                );
            }
        }
        if *client.parameters == *server.parameters {
            client.parameters = Arc::clone(&server.parameters);
        }
    }
}
