//! A conversation of several clients. What [`Script`] prints is the Rust code that makes it: a shortened failure is pasted into `seeds.rs`.

use std::fmt;

/// Who says what, in order. Only one client acts at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Server connections of the pool.
    pub pool: usize,
    pub user: User,
    pub observe: Observe,
    pub steps: Vec<Step>,
}

/// As whom all clients of a script log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    Plain,
    Superuser,
}

/// When fingerprints are taken through the pool: each also moves clients between server connections, so that not taking one finds other faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observe {
    /// After each step, of every client.
    Everybody,
    /// After each step, of the client that has acted.
    Actor,
    AtTheEnd,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Numbers are not used again: a client that comes after one that has left has its own.
    pub client: usize,
    pub act: Act,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// With these startup parameters.
    Connect(Vec<(String, String)>),
    /// All units in one write; then the replies to all of them are awaited.
    Say(Vec<Unit>),
    Leave(Leave),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// Terminate, as the protocol wants it.
    Politely,
    /// The socket is closed.
    Silently,
    /// The socket is reset.
    Abruptly,
}

/// What one ReadyForQuery answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// The statements of one Query.
    Simple(Vec<String>),
    /// Messages of the extended protocol; a Sync follows.
    Extended(Vec<Part>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Parse {
        name: String,
        sql: String,
    },
    Bind {
        portal: String,
        statement: String,
        values: Vec<String>,
    },
    DescribeStatement(String),
    DescribePortal(String),
    Execute {
        portal: String,
        rows: i32,
    },
    CloseStatement(String),
    ClosePortal(String),
}

impl Script {
    /// Nothing yet, for plain users, looked at after each step.
    pub fn of(pool: usize) -> Self {
        Script {
            pool,
            user: User::Plain,
            observe: Observe::Everybody,
            steps: Vec::new(),
        }
    }

    pub fn user(mut self, user: User) -> Self {
        self.user = user;
        self
    }

    pub fn observe(mut self, observe: Observe) -> Self {
        self.observe = observe;
        self
    }

    pub fn connect(self, client: usize, parameters: &[(&str, &str)]) -> Self {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.step(client, Act::Connect(parameters.iter().map(owned).collect()))
    }

    pub fn say(self, client: usize, units: &[Unit]) -> Self {
        self.step(client, Act::Say(units.to_vec()))
    }

    pub fn leave(self, client: usize, how: Leave) -> Self {
        self.step(client, Act::Leave(how))
    }

    pub fn step(mut self, client: usize, act: Act) -> Self {
        self.steps.push(Step { client, act });
        self
    }
}

pub fn simple(statements: &[&str]) -> Unit {
    Unit::Simple(statements.iter().map(|sql| (*sql).to_owned()).collect())
}

pub fn extended(parts: &[Part]) -> Unit {
    Unit::Extended(parts.to_vec())
}

pub fn parse(name: &str, sql: &str) -> Part {
    Part::Parse {
        name: name.into(),
        sql: sql.into(),
    }
}

pub fn bind(portal: &str, statement: &str, values: &[&str]) -> Part {
    Part::Bind {
        portal: portal.into(),
        statement: statement.into(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    }
}

pub fn execute(portal: &str, rows: i32) -> Part {
    Part::Execute {
        portal: portal.into(),
        rows,
    }
}

pub fn describe_statement(name: &str) -> Part {
    Part::DescribeStatement(name.into())
}

pub fn describe_portal(name: &str) -> Part {
    Part::DescribePortal(name.into())
}

pub fn close_statement(name: &str) -> Part {
    Part::CloseStatement(name.into())
}

pub fn close_portal(name: &str) -> Part {
    Part::ClosePortal(name.into())
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Script::of({})", self.pool)?;
        if self.user != User::Plain {
            write!(f, ".user(User::{:?})", self.user)?;
        }
        if self.observe != Observe::Everybody {
            write!(f, ".observe(Observe::{:?})", self.observe)?;
        }
        for step in &self.steps {
            write!(f, "\n    {step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let client = self.client;
        match &self.act {
            Act::Connect(parameters) => write!(f, ".connect({client}, &{parameters:?})"),
            Act::Leave(how) => write!(f, ".leave({client}, Leave::{how:?})"),
            Act::Say(units) => {
                let units: Vec<_> = units.iter().map(Unit::to_string).collect();
                write!(f, ".say({client}, &[{}])", units.join(", "))
            }
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Simple(statements) => write!(f, "simple(&{statements:?})"),
            Unit::Extended(parts) => {
                let parts: Vec<_> = parts.iter().map(Part::to_string).collect();
                write!(f, "extended(&[{}])", parts.join(", "))
            }
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Parse { name, sql } => write!(f, "parse({name:?}, {sql:?})"),
            Part::Bind {
                portal,
                statement,
                values,
            } => write!(f, "bind({portal:?}, {statement:?}, &{values:?})"),
            Part::DescribeStatement(name) => write!(f, "describe_statement({name:?})"),
            Part::DescribePortal(name) => write!(f, "describe_portal({name:?})"),
            Part::Execute { portal, rows } => write!(f, "execute({portal:?}, {rows})"),
            Part::CloseStatement(name) => write!(f, "close_statement({name:?})"),
            Part::ClosePortal(name) => write!(f, "close_portal({name:?})"),
        }
    }
}
