//! From a seed to a conversation. What it guesses about clients (in a transaction, pinned) only makes conversations livelier: a step that cannot
//! be taken is left out when the conversation runs.

use crate::draw::Draw;
use crate::kind::{self, Kind, NAMES, Statement};
use crate::script::{
    Act, Leave, Observe, Part, Script, Unit, User, bind, close_portal, close_statement,
    describe_portal, describe_statement, execute, parse,
};

/// Steps of a conversation, at most.
const STEPS_MAX: usize = 30;

/// The conversation of a seed, with statements of some of these kinds.
pub fn generate(seed: u64, kinds: &[Kind]) -> Script {
    let mut draw = Draw::new(seed);
    let mut script = Script::of(1 + draw.below(3))
        .user(draw.weighed(&[(4, User::Plain), (1, User::Superuser)]))
        .observe(draw.weighed(&[
            (1, Observe::Everybody),
            (2, Observe::Actor),
            (2, Observe::AtTheEnd),
        ]));
    let share = draw.of(&[15, 35, 60]);
    let used = Kind::ALL.into_iter().filter(|(_, kind)| {
        let fits = *kind != Kind::Authorization || script.user == User::Superuser;
        let drawn = draw.percent(share) || *kind == Kind::Plain;
        fits && drawn && (kinds.contains(kind) || *kind == Kind::Plain)
    });
    let used: Vec<_> = used.collect();
    let steps = 5 + draw.below(STEPS_MAX - 5);
    let mut generator = Generator {
        clients_max: script.pool + draw.below(3),
        draw,
        allowed: kinds.to_vec(),
        kinds: used,
        clients: Vec::new(),
        next: 0,
    };
    while script.steps.len() < steps {
        let (client, act) = generator.step(script.pool);
        script = script.step(client, act);
    }
    script
}

struct Generator {
    draw: Draw,
    /// [`Kind::Reliance`] and [`Kind::StartupRole`] are not statements.
    allowed: Vec<Kind>,
    kinds: Vec<(usize, Kind)>,
    clients: Vec<Guess>,
    clients_max: usize,
    next: usize,
}

/// What is believed of a connected client.
struct Guess {
    number: usize,
    startup: Startup,
    in_transaction: bool,
    pinned: bool,
}

/// Whether it has startup parameters of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Startup {
    Plain,
    Own,
}

/// What stands around a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    Nothing,
    Others,
}

impl Guess {
    fn holds(&self) -> bool {
        self.in_transaction || self.pinned
    }
}

impl Generator {
    fn step(&mut self, pool: usize) -> (usize, Act) {
        if self.clients.is_empty()
            || (self.clients.len() < self.clients_max && self.draw.percent(30))
        {
            return self.connect();
        }
        let crowded = self.clients.iter().filter(|client| client.holds()).count() >= pool;
        let able: Vec<usize> = (0..self.clients.len())
            .filter(|place| !crowded || self.clients[*place].holds())
            .collect();
        let place = self.draw.of(&able);
        if self.draw.percent(if crowded { 10 } else { 4 }) {
            let gone = self.clients.remove(place);
            let how = self
                .draw
                .of(&[Leave::Politely, Leave::Silently, Leave::Abruptly]);
            return (gone.number, Act::Leave(how));
        }
        let crowded = crowded && self.clients_max > 1;
        (
            self.clients[place].number,
            Act::Say(self.say(place, crowded)),
        )
    }

    fn connect(&mut self) -> (usize, Act) {
        let number = self.next;
        self.next += 1;
        let mut parameters = Vec::new();
        while self.draw.percent(35) {
            let (name, value) = self.draw.of(STARTUP);
            let allowed = !value.contains("role") || self.allowed.contains(&Kind::StartupRole);
            if allowed && parameters.iter().all(|(taken, _)| taken != name) {
                parameters.push((name.to_owned(), value.to_owned()));
            }
        }
        self.clients.push(Guess {
            number,
            startup: if parameters.is_empty() {
                Startup::Plain
            } else {
                Startup::Own
            },
            in_transaction: false,
            pinned: false,
        });
        (number, Act::Connect(parameters))
    }

    fn say(&mut self, place: usize, crowded: bool) -> Vec<Unit> {
        if crowded && self.draw.percent(30) {
            return self.let_go(place);
        }
        if self.clients[place].in_transaction {
            return self.go_on(place);
        }
        match self.draw.below(100) {
            0..20 => {
                self.clients[place].in_transaction = true;
                let begin = self.draw.of(&[
                    "BEGIN",
                    "BEGIN",
                    "START TRANSACTION",
                    "BEGIN ISOLATION LEVEL REPEATABLE READ",
                    "BEGIN READ ONLY",
                ]);
                vec![self.single(begin.into())]
            }
            20..32 => vec![self.several_statements(place)],
            32..46 => self.pipeline(place),
            _ => {
                let statement = self.statement(place, Around::Nothing);
                vec![self.single(statement)]
            }
        }
    }

    /// Others have to wait for this client: what it holds goes.
    fn let_go(&mut self, place: usize) -> Vec<Unit> {
        let client = &mut self.clients[place];
        if std::mem::take(&mut client.in_transaction) {
            let end = self.draw.of(&["COMMIT", "ROLLBACK"]);
            return vec![self.single(end.into())];
        }
        client.pinned = false;
        let all = if self.allowed.contains(&Kind::Discard) {
            "DISCARD ALL"
        } else {
            "UNLISTEN *"
        };
        let release = self.draw.of(&[
            "SELECT pg_advisory_unlock_all()",
            "CLOSE ALL",
            "DROP TABLE IF EXISTS t1, t2",
            all,
        ]);
        vec![self.single(release.into())]
    }

    fn go_on(&mut self, place: usize) -> Vec<Unit> {
        let statement: Statement = match self.draw.below(100) {
            0..30 => {
                self.clients[place].in_transaction = false;
                self.draw
                    .of(&["COMMIT", "COMMIT", "END", "ROLLBACK", "ROLLBACK", "ABORT"])
                    .into()
            }
            30..33 => self
                .draw
                .of(&["COMMIT AND CHAIN", "ROLLBACK AND CHAIN"])
                .into(),
            33..48 => self.savepoint(),
            48..54 => kind::statement(Kind::Failure, 0, &mut self.draw),
            54..60 => return self.pipeline(place),
            _ => self.statement(place, Around::Others),
        };
        vec![self.single(statement)]
    }

    fn savepoint(&mut self) -> Statement {
        self.draw
            .of(&[
                "SAVEPOINT a",
                "SAVEPOINT b",
                "ROLLBACK TO a",
                "ROLLBACK TO SAVEPOINT b",
                "RELEASE a",
                "SAVEPOINT a",
            ])
            .into()
    }

    fn statement(&mut self, place: usize, around: Around) -> Statement {
        let kind = self.draw.weighed(&self.kinds);
        let client = &mut self.clients[place];
        client.pinned |= kind.may_pin();
        let statement = kind::statement(kind, client.number, &mut self.draw);
        let within = around == Around::Others || client.in_transaction;
        if within
            && client.startup == Startup::Own
            && statement.resets()
            && !self.allowed.contains(&Kind::InnerReset)
        {
            return "SELECT 1".into();
        }
        statement
    }

    /// Statements of one Query: one transaction, unless they say otherwise.
    fn several_statements(&mut self, place: usize) -> Unit {
        let mut statements: Vec<String> = Vec::new();
        for _ in 0..2 + self.draw.below(3) {
            let statement = self.statement(place, Around::Others);
            if statement.values.is_empty() && !prepares_again(&statements, &statement.sql) {
                statements.push(statement.sql);
            }
        }
        match self.draw.below(8) {
            0 => statements.push("SELECT 1/0".into()),
            1 => statements.insert(0, "SELECT 1/0".into()),
            2 => {
                statements.insert(0, "BEGIN".into());
                statements.push(self.draw.of(&["COMMIT", "ROLLBACK"]).into());
            }
            3 => {
                statements.push("COMMIT".into());
                statements.push("SELECT 1".into());
            }
            4 => {
                statements.push("BEGIN".into());
                self.clients[place].in_transaction = true;
            }
            _ => {}
        }
        if statements.is_empty() {
            statements.push(String::new());
        }
        Unit::Simple(statements)
    }

    /// Several units in one write, or several statements before one Sync.
    fn pipeline(&mut self, place: usize) -> Vec<Unit> {
        let mut units = Vec::new();
        for _ in 0..1 + self.draw.below(3) {
            let parts = (0..1 + self.draw.below(3)).flat_map(|_| {
                let statement = if self.draw.percent(10) {
                    kind::statement(Kind::Failure, 0, &mut self.draw)
                } else {
                    self.statement(place, Around::Others)
                };
                self.parts(statement)
            });
            let unit = Unit::Extended(parts.collect());
            self.append(&mut units, unit);
            if self.draw.percent(25) {
                let statement = self.statement(place, Around::Others);
                let unit = self.single(statement);
                self.append(&mut units, unit);
            }
        }
        if units.is_empty() {
            vec![Unit::Simple(vec!["SELECT 1".into()])]
        } else {
            units
        }
    }

    fn append(&self, units: &mut Vec<Unit>, unit: Unit) {
        units.push(unit);
        if !self.allowed.contains(&Kind::Reliance) && relies_on_earlier(units) {
            units.pop();
        }
    }

    fn single(&mut self, statement: Statement) -> Unit {
        if statement.values.is_empty() && self.draw.percent(55) {
            Unit::Simple(vec![statement.sql])
        } else {
            Unit::Extended(self.parts(statement))
        }
    }

    /// One statement in the extended protocol, or one that has been prepared before.
    fn parts(&mut self, Statement { sql, values }: Statement) -> Vec<Part> {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        // In a failed transaction these may be prepared, and then it is a matter of order which error comes first.
        let ends = ["COMMIT", "END", "ROLLBACK", "ABORT"]
            .iter()
            .any(|word| sql.starts_with(word));
        let statement = if !ends && self.draw.percent(45) {
            self.draw.of(&NAMES)
        } else {
            ""
        };
        let portal = if self.draw.percent(10) { "p" } else { "" };
        let mut parts = Vec::new();
        match self.draw.below(10) {
            0 if !statement.is_empty() => {}
            1 => parts.extend([close_statement(statement), parse(statement, &sql)]),
            2 => parts.extend([parse(statement, &sql), describe_statement(statement)]),
            3 => return vec![parse(statement, &sql)],
            4 => {}
            _ => parts.push(parse(statement, &sql)),
        }
        parts.push(bind(portal, statement, &values));
        if self.draw.percent(40) {
            parts.push(describe_portal(portal));
        }
        parts.push(execute(portal, self.draw.of(&[0, 0, 0, 1])));
        match self.draw.below(12) {
            0 => parts.push(close_portal(portal)),
            1 => parts.push(close_statement(statement)),
            _ => {}
        }
        parts
    }
}

/// Whether a name is prepared twice: which of the two stands then is not known from the text that PostgreSQL keeps, and the client is pinned.
fn prepares_again(statements: &[String], sql: &str) -> bool {
    let prepared = |sql: &str| {
        let mut words = sql.split(' ').map(str::to_lowercase);
        (words.next()? == "prepare").then(|| words.next()).flatten()
    };
    prepared(sql).is_some_and(|name| {
        statements
            .iter()
            .any(|other| prepared(other).as_ref() == Some(&name))
    })
}

/// Whether the last unit names a statement that an earlier one parses.
fn relies_on_earlier(units: &[Unit]) -> bool {
    let Some((Unit::Extended(last), earlier)) = units.split_last() else {
        return false;
    };
    let earlier = earlier.iter().flat_map(|unit| match unit {
        Unit::Extended(parts) => &parts[..],
        Unit::Simple(_) => &[],
    });
    let parsed: Vec<&String> = earlier
        .filter_map(|part| match part {
            Part::Parse { name, .. } => Some(name),
            _ => None,
        })
        .collect();
    last.iter().any(|part| match part {
        Part::Parse { name, .. } => !name.is_empty() && parsed.contains(&name),
        Part::Bind { statement, .. } => parsed.contains(&statement),
        Part::DescribeStatement(name) | Part::CloseStatement(name) => parsed.contains(&name),
        _ => false,
    })
}

const STARTUP: &[(&str, &str)] = &[
    ("application_name", "started"),
    ("TimeZone", "America/Lima"),
    ("DateStyle", "SQL, DMY"),
    ("client_encoding", "LATIN1"),
    ("search_path", "diff_a, public"),
    ("search_path", "diff_b"),
    ("work_mem", "9MB"),
    ("extra_float_digits", "2"),
    ("app.tenant", "at start"),
    ("options", "-c statement_timeout=40s -c app.user=option"),
    (
        "options",
        "-c bytea_output=escape --application_name=by\\ option",
    ),
    (
        "options",
        "-c default_transaction_isolation=repeatable\\ read",
    ),
    ("options", "-c role=diff_reader"),
    ("default_transaction_read_only", "on"),
];
