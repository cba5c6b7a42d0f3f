//! What follows from the observations: sentences, sizes and settings. Plain data, for people and machines.

use super::observations::Name;
use serde::Serialize;

/// All that [`reasoning`](super::reasoning) concludes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Advice {
    pub findings: Vec<Finding>,
    pub pools: Vec<PoolAdvice>,
    /// What to change on the server and its machine; the adviser changes nothing there.
    pub changes: Vec<Change>,
    pub ini: IniAdvice,
}

/// A sentence or two, with the numbers behind them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub topic: Topic,
    pub weight: Weight,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    Sight,
    Work,
    Pooler,
    Writes,
    Idle,
    IdleInTransaction,
    Reconnecting,
    Memory,
    HugePages,
    Connections,
    TimeOuts,
}

impl Topic {
    /// The heading in a text.
    pub fn title(self) -> &'static str {
        match self {
            Topic::Sight => "How far this goes",
            Topic::Work => "Sessions at work",
            Topic::Pooler => "The pooler in front",
            Topic::Writes => "Readers and writers",
            Topic::Idle => "Idle sessions",
            Topic::IdleInTransaction => "Idle in a transaction",
            Topic::Reconnecting => "Clients that reconnect",
            Topic::Memory => "Memory",
            Topic::HugePages => "Huge pages",
            Topic::Connections => "max_connections",
            Topic::TimeOuts => "Time-outs",
        }
    }
}

/// Whether something should be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    Good,
    Plain,
    Act,
}

/// The size of one pool in transaction mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PoolAdvice {
    pub name: Name,
    pub size: u32,
    pub reserve: u32,
    /// Server connections that were wanted at the same time.
    pub mean: f64,
    pub p95: u32,
    pub max: u32,
    pub why: String,
}

/// Something that the operator may do outside the ini.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// A statement, or a command.
    pub what: String,
    pub why: String,
}

/// What belongs into the ini.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct IniAdvice {
    pub databases: Vec<DatabaseAdvice>,
    pub settings: Vec<SettingAdvice>,
}

/// Parameters of the lines of `[databases]` that lead to a database of the server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatabaseAdvice {
    pub database: String,
    pub pool_size: u32,
    /// The sum over its users, where it has several.
    pub max_db_connections: Option<u32>,
    pub why: String,
}

/// A line of `[pgbouncer]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingAdvice {
    pub name: &'static str,
    pub value: String,
    pub why: String,
    pub keeps: Keeps,
}

/// Which value of the user's own stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Keeps {
    Nothing,
    /// A larger number.
    Larger,
    /// A smaller number, but not 0 for "no limit".
    Smaller,
    /// Any that is not 0.
    AnyLimit,
}

impl SettingAdvice {
    /// Whether the user's own value stays.
    pub fn yields_to(&self, own: &str) -> bool {
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let own_number = number(own);
        own.trim() == self.value
            || match self.keeps {
                Keeps::Nothing => false,
                Keeps::Larger => own_number >= number(&self.value) && own_number.is_some(),
                Keeps::Smaller => {
                    own_number <= number(&self.value) && own_number.is_some_and(|own| own != 0.0)
                }
                Keeps::AnyLimit => own_number.is_some_and(|own| own != 0.0),
            }
    }
}

impl Finding {
    pub fn new(topic: Topic, weight: Weight, text: impl Into<String>) -> Self {
        Self {
            topic,
            weight,
            text: text.into(),
        }
    }
}
