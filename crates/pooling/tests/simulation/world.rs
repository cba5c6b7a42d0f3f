//! Clients, server connections and the pool between them; and what must hold after each step.

use crate::backend::Backend;
use crate::script;
use pooling::conversation::{Aside, ClientSide, Event, Own, Passage};
use pooling::statements::{ClientStatements, Standing, StatementCache};
use pooling::{Conversation, Parameters};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::backend::{TransactionStatus, tag};
use wire::{Header, frontend};

const CLIENTS: usize = 5;
const SERVERS: usize = 2;
const STATEMENTS_MAX: usize = 3;

/// What happened, to see that a run was worth something.
#[derive(Default, Debug)]
pub struct Tally {
    batches: u64,
    leases: u64,
    replays: u64,
    vanished: u64,
    kept_after_vanishing: u64,
    doubtful: u64,
    messages: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.batches += other.batches;
        self.leases += other.leases;
        self.replays += other.replays;
        self.vanished += other.vanished;
        self.kept_after_vanishing += other.kept_after_vanishing;
        self.doubtful += other.doubtful;
        self.messages += other.messages;
    }

    pub fn assert_that_everything_happened(&self) {
        let Tally {
            batches,
            leases,
            replays,
            vanished,
            kept_after_vanishing,
            doubtful,
            messages,
        } = self;
        for count in [
            batches,
            leases,
            replays,
            vanished,
            kept_after_vanishing,
            doubtful,
            messages,
        ] {
            assert!(*count > 100, "{self:?}");
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Waiting,
    Leased(usize),
}

struct Client {
    number: u32,
    phase: Phase,
    statements: ClientStatements,
    /// The session of its own.
    alone: Backend,
    /// Bytes on their way to the pooler, and those that have arrived there.
    sent: Vec<u8>,
    arrived: Vec<u8>,
    /// Bytes of the message in transit that are still to be passed on.
    passing: usize,
    received: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Duty {
    Idle,
    Leased(usize),
    Abandoned,
    Reset,
}

struct Server {
    conversation: Conversation,
    backend: Backend,
    duty: Duty,
    /// Bytes from it that have arrived at the pooler.
    arrived: Vec<u8>,
    /// Bytes of the message in transit, and whether they are passed on.
    transit: Transit,
    /// What has been said since the lease began, for messages of failures: `>` to the server, `<` by it.
    said: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transit {
    Pass(usize),
    Drop(usize),
}

pub struct World {
    rng: SmallRng,
    clients: Vec<Client>,
    servers: Vec<Server>,
    cache: StatementCache,
    parameters: Arc<Parameters>,
    waiting: VecDeque<usize>,
    idle: Vec<usize>,
    clients_made: u32,
    tally: Tally,
}

fn new_server() -> Server {
    Server {
        conversation: Conversation::new(Some(STATEMENTS_MAX)),
        backend: Backend::new(),
        duty: Duty::Idle,
        arrived: Vec::new(),
        transit: Transit::Pass(0),
        said: String::new(),
    }
}

fn new_client(number: u32) -> Client {
    Client {
        number,
        phase: Phase::Idle,
        statements: ClientStatements::default(),
        alone: Backend::new(),
        sent: Vec::new(),
        arrived: Vec::new(),
        passing: 0,
        received: Vec::new(),
    }
}

impl World {
    pub fn new(seed: u64) -> World {
        World {
            rng: SmallRng::seed_from_u64(seed),
            clients: (0..CLIENTS as u32).map(new_client).collect(),
            servers: (0..SERVERS).map(|_| new_server()).collect(),
            cache: StatementCache::new([7; 16], 4_000, Arc::default()),
            parameters: Arc::default(),
            waiting: VecDeque::new(),
            idle: (0..SERVERS).collect(),
            clients_made: CLIENTS as u32,
            tally: Tally::default(),
        }
    }

    pub fn run(mut self, steps: u64) -> Tally {
        for _ in 0..steps {
            self.step();
        }
        self.drain();
        self.tally
    }

    fn step(&mut self) {
        let client = self.rng.random_range(0..CLIENTS);
        let server = self.rng.random_range(0..SERVERS);
        match self.rng.random_range(0..400) {
            0 => self.vanish(client),
            1..6 => {
                let what = self.rng.random();
                self.servers[server].backend.speak_up(what);
            }
            6..80 => self.script(client),
            80..180 => drop(self.deliver_to_pooler(client)),
            180..290 => drop(self.servers[server].backend.step()),
            _ => drop(self.deliver_from_server(server)),
        }
    }

    /// Open transactions are ended, nothing else is said; everything that is owed must come.
    fn drain(&mut self) {
        loop {
            while self.move_all() {}
            let open = |&client: &usize| {
                self.is_answered(client) && self.clients[client].alone.is_in_transaction()
            };
            let Some(client) = (0..CLIENTS).find(open) else {
                break;
            };
            let mut rollback = Vec::new();
            wire::write::query(&mut rollback, b"rollback");
            self.say(client, &rollback);
        }
        for client in 0..CLIENTS {
            assert!(
                self.is_answered(client),
                "client {client} still waits, {:?}",
                self.clients[client].phase
            );
            assert_eq!(self.clients[client].phase, Phase::Idle);
        }
        assert!(self.servers.iter().all(|server| server.duty == Duty::Idle));
    }

    fn move_all(&mut self) -> bool {
        let mut moved = false;
        for client in 0..CLIENTS {
            moved |= self.deliver_to_pooler(client);
        }
        for server in 0..SERVERS {
            moved |= self.servers[server].backend.step();
            moved |= self.deliver_from_server(server);
        }
        moved
    }

    fn say(&mut self, index: usize, messages: &[u8]) {
        let client = &mut self.clients[index];
        client.alone.take_sent(client.alone.sent().len());
        client.received.clear();
        client.alone.receive(messages);
        while client.alone.step() {}
        client.sent.extend_from_slice(messages);
    }

    /// The next batch, once all of the one before is answered, as a driver would.
    fn script(&mut self, index: usize) {
        if !self.is_answered(index) {
            return;
        }
        let client = &self.clients[index];
        let batch = script::batch(
            &mut self.rng,
            client.number,
            client.alone.is_in_transaction(),
        );
        self.say(index, &batch);
        self.tally.batches += 1;
    }

    fn is_answered(&self, index: usize) -> bool {
        let client = &self.clients[index];
        client.sent.is_empty()
            && client.arrived.is_empty()
            && client.received == client.alone.sent()
    }

    fn piece(&mut self, len: usize) -> usize {
        match self.rng.random_range(0..4) {
            0 => len.min(self.rng.random_range(1..8)),
            1 => len.min(self.rng.random_range(1..64)),
            _ => len,
        }
    }

    fn deliver_to_pooler(&mut self, index: usize) -> bool {
        if self.clients[index].sent.is_empty() || self.clients[index].phase == Phase::Waiting {
            return false;
        }
        let len = self.piece(self.clients[index].sent.len());
        let client = &mut self.clients[index];
        client.arrived.extend(client.sent.drain(..len));
        self.client_messages(index);
        true
    }

    fn client_messages(&mut self, index: usize) {
        loop {
            let client = &mut self.clients[index];
            match client.phase {
                Phase::Waiting => return,
                Phase::Idle => {
                    let Ok(Some(header)) = Header::peek(&client.arrived) else {
                        return;
                    };
                    let late_copy = [
                        frontend::tag::COPY_DATA,
                        frontend::tag::COPY_DONE,
                        frontend::tag::COPY_FAIL,
                    ]
                    .contains(&header.tag);
                    if !late_copy {
                        self.check_out(index);
                    } else if client.arrived.len() >= header.total() {
                        client.arrived.drain(..header.total());
                    } else {
                        return;
                    }
                }
                Phase::Leased(server) => {
                    if !self.client_message(index, server) {
                        return self.settle_if_so(server);
                    }
                }
            }
        }
    }

    /// Passes on what has arrived of a client's message; false if there is nothing to do.
    fn client_message(&mut self, index: usize, server: usize) -> bool {
        let World {
            clients,
            servers,
            cache,
            parameters,
            ..
        } = self;
        let (client, server) = (&mut clients[index], &mut servers[server]);
        if client.passing > 0 {
            let len = client.passing.min(client.arrived.len());
            let bytes: Vec<u8> = client.arrived.drain(..len).collect();
            server.backend.receive(&bytes);
            server.conversation.keep(&bytes);
            client.passing -= len;
            return len > 0;
        }
        let Ok(Some(header)) = Header::peek(&client.arrived) else {
            return false;
        };
        let mut aside = Aside::default();
        let side = ClientSide {
            statements: &mut client.statements,
            cache,
            parameters,
            watch: None,
            recall: None,
        };
        let passage = server.conversation.client_message(
            side,
            header,
            &client.arrived[Header::SIZE..],
            &mut aside,
        );
        let passage = passage.expect("clients keep to the protocol");
        if passage == Passage::Wait {
            assert!(server.conversation.is_awaited() && aside.to_server.is_empty());
            return false;
        }
        let Passage::Pass { skip } = passage else {
            assert!(aside.to_server.is_empty() && aside.to_client.is_empty());
            assert!(
                client.arrived.len() < header.total(),
                "a whole message decides"
            );
            return false;
        };
        server.note('>', &aside.to_server);
        server.said += &format!(
            " client:{}",
            client.arrived[..header.total().min(client.arrived.len())].escape_ascii()
        );
        server.backend.receive(&aside.to_server);
        server
            .conversation
            .keep(&client.arrived[..skip.min(client.arrived.len())]);
        client.received.extend_from_slice(&aside.to_client);
        client.arrived.drain(..skip);
        client.passing = header.total() - skip;
        self.tally.messages += 1;
        self.check_replies(index);
        true
    }

    fn deliver_from_server(&mut self, index: usize) -> bool {
        let len = self.servers[index].backend.sent().len();
        if len == 0 {
            return false;
        }
        let len = self.piece(len);
        let server = &mut self.servers[index];
        let bytes = server.backend.take_sent(len);
        server.arrived.extend_from_slice(&bytes);
        while self.server_message(index) {
            let server = &self.servers[index];
            if server.duty == Duty::Abandoned && server.conversation.is_doubtful() {
                break;
            }
        }
        if self.servers[index].duty == Duty::Abandoned
            && self.servers[index].conversation.is_doubtful()
        {
            self.servers[index].transit = Transit::Drop(0);
        }
        let arrival = self.servers[index].conversation.take_arrival();
        let awaiting = match self.servers[index].duty {
            Duty::Leased(client) if arrival => Some(client),
            _ => None,
        };
        self.settle_if_so(index);
        if let Some(client) = awaiting {
            self.client_messages(client);
        }
        true
    }

    fn server_message(&mut self, index: usize) -> bool {
        let World {
            clients, servers, ..
        } = self;
        let server = &mut servers[index];
        let mut client = match server.duty {
            Duty::Leased(client) => Some(&mut clients[client]),
            _ => None,
        };
        if let Transit::Pass(left @ 1..) | Transit::Drop(left @ 1..) = server.transit {
            let len = left.min(server.arrived.len());
            let bytes: Vec<u8> = server.arrived.drain(..len).collect();
            server.transit = match server.transit {
                Transit::Pass(_) => {
                    if let Some(client) = client {
                        client.received.extend_from_slice(&bytes);
                    }
                    Transit::Pass(left - len)
                }
                Transit::Drop(_) => Transit::Drop(left - len),
            };
            self.check_replies_of(index);
            return len > 0;
        }
        let Ok(Some(header)) = Header::peek(&server.arrived) else {
            return false;
        };
        let mut aside = Aside::default();
        let statements = client.as_mut().map(|client| &mut client.statements);
        let reply = server.conversation.server_message(
            statements,
            header,
            &server.arrived[Header::SIZE..],
            &mut aside,
        );
        server.note(
            '<',
            &server.arrived.clone()[..header.total().min(server.arrived.len())],
        );
        let reply = reply.unwrap_or_else(|violation| panic!("{violation} after{}", server.said));
        assert!(aside.to_server.is_empty());
        let Passage::Pass { skip } = reply.passage else {
            assert!(aside.to_client.is_empty() && server.arrived.len() < header.total());
            return false;
        };
        assert!(skip == 0 || skip == header.total());
        assert!(!matches!(
            reply.event,
            Event::OwnFailed(_) | Event::OwnDone { failed: true, .. }
        ));
        let is_aside = matches!(
            header.tag,
            tag::NOTICE_RESPONSE | tag::NOTIFICATION_RESPONSE | tag::PARAMETER_STATUS
        );
        let nobody_listens = client.is_none();
        if let Some(client) = client {
            client.received.extend_from_slice(&aside.to_client);
        }
        // What nobody asked for is left out of the comparison.
        server.transit = if skip > 0 || is_aside || nobody_listens {
            Transit::Drop(header.total())
        } else {
            Transit::Pass(header.total())
        };
        if let Event::Outdated(mark) | Event::Repeat(mark) = reply.event
            && let Duty::Leased(client) = self.servers[index].duty
        {
            self.cache
                .note_outdated(&self.clients[client].statements, mark);
        }
        if matches!(reply.event, Event::Repeat(_)) {
            self.repeat(index);
        }
        self.check_replies_of(index);
        true
    }

    fn repeat(&mut self, index: usize) {
        let server = &mut self.servers[index];
        let Duty::Leased(client) = server.duty else {
            panic!("nobody to say it again for");
        };
        let mut aside = Aside::default();
        let side = ClientSide {
            statements: &mut self.clients[client].statements,
            cache: &mut self.cache,
            parameters: &self.parameters,
            watch: None,
            recall: None,
        };
        server.conversation.repeat(side, &mut aside);
        server.note('>', &aside.to_server);
        server.backend.receive(&aside.to_server);
    }

    fn check_replies_of(&self, server: usize) {
        if let Duty::Leased(client) = self.servers[server].duty {
            self.check_replies(client);
        }
    }

    /// What has come is the beginning of what the client's own session says.
    fn check_replies(&self, index: usize) {
        let client = &self.clients[index];
        let expected = client.alone.sent();
        let common = client.received.len().min(expected.len());
        let said = match client.phase {
            Phase::Leased(server) => &*self.servers[server].said,
            _ => "",
        };
        assert!(
            client.received[..common] == expected[..common],
            "client {index} received\n  {}\nalone\n  {}\nafter {said}",
            client.received.escape_ascii(),
            expected.escape_ascii()
        );
    }

    fn check_out(&mut self, client: usize) {
        if let Some(server) = self.idle.pop() {
            self.link(server, client);
        } else {
            self.clients[client].phase = Phase::Waiting;
            self.waiting.push_back(client);
        }
    }

    fn link(&mut self, index: usize, client: usize) {
        let replay = self.rng.random_ratio(1, 3);
        let server = &mut self.servers[index];
        assert!(server.conversation.is_settled() && server.conversation.owed() == 0);
        assert!(
            !matches!(server.transit, Transit::Pass(1..)),
            "the rest of a message would go to another client"
        );
        server.check_statements();
        server.duty = Duty::Leased(client);
        server.said = format!(" [lease of {client}]");
        server.conversation.begin_lease(client as u64);
        if replay {
            server.say_own(Own::Replay, b"rows of a replay");
            self.tally.replays += 1;
        }
        self.clients[client].phase = Phase::Leased(index);
        self.tally.leases += 1;
    }

    /// As the worker decides it (`giveback`).
    fn settle_if_so(&mut self, index: usize) {
        let server = &self.servers[index];
        let conversation = &server.conversation;
        assert!(conversation.owed() < 500, "replies owed without bound");
        let abandoned = server.duty == Duty::Abandoned;
        if server.transit_left() > 0
            || !(conversation.is_settled() || conversation.is_doubtful() || abandoned)
        {
            return;
        }
        match server.duty {
            Duty::Leased(client) => {
                let ended =
                    !conversation.is_busy() && conversation.status() == TransactionStatus::Idle;
                if ended && self.clients[client].passing == 0 {
                    self.clients[client].phase = Phase::Idle;
                    self.give_back(index);
                    self.client_messages(client);
                }
            }
            Duty::Abandoned => self.advance_abandoned(index),
            Duty::Reset if !conversation.is_busy() => self.free(index),
            Duty::Idle | Duty::Reset => {}
        }
    }

    fn give_back(&mut self, index: usize) {
        let reset = self.rng.random_ratio(1, 20);
        let server = &mut self.servers[index];
        if reset && !server.conversation.is_doubtful() {
            server.duty = Duty::Reset;
            server.say_own(Own::Reset, b"discard all");
        } else {
            self.free(index);
        }
    }

    fn free(&mut self, index: usize) {
        let server = &mut self.servers[index];
        server.duty = Duty::Idle;
        if server.conversation.is_doubtful() {
            self.tally.doubtful += 1;
            *server = new_server();
        } else {
            assert!(
                server.backend.is_at_rest(&server.arrived),
                "the server is not done with its client: {} after{}",
                server.backend.describe_rest(),
                server.said
            );
        }
        match self.waiting.pop_front() {
            Some(client) => {
                self.link(index, client);
                self.client_messages(client);
            }
            None => self.idle.push(index),
        }
    }

    fn vanish(&mut self, index: usize) {
        self.clients_made += 1;
        let client = std::mem::replace(&mut self.clients[index], new_client(self.clients_made));
        self.waiting.retain(|waiting| *waiting != index);
        self.tally.vanished += 1;
        if let Phase::Leased(server) = client.phase {
            self.abandon(server, client.passing > 0);
        }
    }

    fn abandon(&mut self, index: usize, cut_off: bool) {
        let cancel = self.rng.random_ratio(1, 2);
        let server = &mut self.servers[index];
        server.duty = Duty::Abandoned;
        if cut_off {
            *server = new_server();
            return self.free(index);
        }
        if cancel {
            server.backend.cancel();
        }
        let mut to_server = Vec::new();
        server.conversation.wind_up(&mut to_server);
        server.note('>', &to_server);
        server.backend.receive(&to_server);
        if server.transit_left() == 0 {
            self.advance_abandoned(index);
        }
    }

    fn advance_abandoned(&mut self, index: usize) {
        let server = &mut self.servers[index];
        if server.conversation.is_doubtful() {
            return self.free(index);
        }
        if server.conversation.is_busy() {
            return;
        }
        if server.conversation.status() == TransactionStatus::Idle {
            self.tally.kept_after_vanishing += 1;
            return self.give_back(index);
        }
        server.say_own(Own::Rollback, b"ROLLBACK");
    }
}

impl Server {
    fn transit_left(&self) -> usize {
        let (Transit::Pass(left) | Transit::Drop(left)) = self.transit;
        left
    }

    fn say_own(&mut self, own: Own, sql: &[u8]) {
        let mut to_server = Vec::new();
        self.conversation.own_query(own, sql, &mut to_server);
        self.note('>', &to_server);
        self.backend.receive(&to_server);
    }

    fn note(&mut self, direction: char, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.said += &format!(" {direction}{}", bytes.escape_ascii());
        }
    }

    /// What is believed to be prepared is, and nothing else.
    fn check_statements(&self) {
        let believed: Vec<_> = self.conversation.statements().collect();
        for (name, standing) in &believed {
            let there = self.backend.named.contains_key(name);
            assert!(
                there || *standing == Standing::Doubted,
                "{} is not prepared",
                name.escape_ascii()
            );
        }
        for name in self
            .backend
            .named
            .keys()
            .filter(|name| name.starts_with(b"weir_"))
        {
            assert!(
                believed.iter().any(|(known, _)| known == name),
                "{} is not known",
                name.escape_ascii()
            );
        }
        assert!(self.backend.named.len() <= STATEMENTS_MAX + 8);
    }
}
