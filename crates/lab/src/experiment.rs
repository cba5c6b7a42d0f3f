//! What an experiment is: points to measure, how to measure one, and what the results say.
//!
//! An experiment knows nothing of rounds, progress, files or pages: that is the runner's and the report's.

use crate::published::Published;
use crate::results::{Chart, Sample, Table, Verdict};
use crate::site::{Capacity, Error, Limit, Site, Target, TargetKind};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One experiment of `weir lab`.
pub trait Experiment: Sync {
    /// As the command line and the files name it.
    fn name(&self) -> &'static str;

    fn about(&self) -> About;

    /// What is to be measured; also what cannot be, and why.
    fn plan(&self, scope: &Scope<'_>) -> Plan;

    /// Sets up what all points need.
    ///
    /// # Errors
    /// Then none of them is measured.
    fn prepare(&self, _site: &mut Site, _plan: &Plan) -> Result<(), Error> {
        Ok(())
    }

    /// Measures one point once.
    ///
    /// # Errors
    /// The point's row says so; the others go on.
    fn measure(&self, point: &Point, site: &mut Site) -> Result<Sample, Error>;

    /// What the medians say, in plain words.
    fn verdict(&self, table: &Table) -> Verdict;

    fn charts(&self, table: &Table) -> Vec<Chart>;
}

/// An experiment, for people.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    pub title: String,
    /// One paragraph: what is done and why.
    pub shows: String,
    /// What [`Point::size`] counts.
    pub axis: String,
    pub measures: Vec<Measure>,
    pub published: Vec<Published>,
}

/// One of the numbers of a sample.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    pub key: String,
    pub label: String,
    pub format: Format,
    pub rank: Rank,
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    Count,
    /// Transactions, context switches, log-ins.
    PerSecond,
    Milliseconds,
    Microseconds,
    Seconds,
    Bytes,
    Number,
}

/// Where a measure is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rank {
    /// What the experiment is about.
    Main,
    /// To be unfolded.
    Detail,
}

impl Scope<'_> {
    /// How many clients a target can have: those of PostgreSQL itself each take a server connection. Of targets that the user names the
    /// first is PostgreSQL itself.
    pub fn limit(&self, target: &Target) -> &Limit {
        let is_first = self.targets.first() == Some(target);
        match target.kind {
            TargetKind::OwnPostgres => &self.capacity.connections,
            TargetKind::Given(_) if is_first => &self.capacity.connections,
            TargetKind::Given(_) | TargetKind::OwnPooler(_) => &self.capacity.clients,
        }
    }
}

impl Measure {
    pub fn main(key: &str, label: &str, format: Format) -> Self {
        Self {
            key: key.into(),
            label: label.into(),
            format,
            rank: Rank::Main,
        }
    }

    pub fn detail(key: &str, label: &str, format: Format) -> Self {
        Self {
            rank: Rank::Detail,
            ..Self::main(key, label, format)
        }
    }
}

/// How thorough a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Depth {
    /// Every experiment once, as small as it makes sense: for tests.
    Smallest,
    /// All within ten minutes on two cores.
    Quick,
    /// The published sizes, as far as the machine carries them.
    Full,
}

impl Depth {
    /// One of three, for tables of sizes.
    pub fn choose<T>(self, smallest: T, quick: T, full: T) -> T {
        match self {
            Depth::Smallest => smallest,
            Depth::Quick => quick,
            Depth::Full => full,
        }
    }
}

/// What a plan depends on.
#[derive(Debug)]
pub struct Scope<'a> {
    pub depth: Depth,
    pub targets: &'a [Target],
    pub capacity: &'a Capacity,
    pub cores: u64,
}

/// What is to be measured.
#[derive(Debug, Default)]
pub struct Plan {
    /// In the order of the tables.
    pub points: Vec<Planned>,
    pub rounds: usize,
    /// Once, before the first point.
    pub preparation: Duration,
    /// What is left out, and why.
    pub left_out: Vec<String>,
}

/// A point, and how long it will take.
#[derive(Debug, Clone)]
pub struct Planned {
    pub point: Point,
    pub cost: Duration,
}

/// One set-up of an experiment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    pub target: String,
    pub case: Case,
    pub size: u64,
    /// That the size is smaller than wanted, and why.
    pub lowered: Option<String>,
}

/// What varies besides target and size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    /// The experiment's own number for it; cases are shown in this order.
    pub key: u64,
    pub label: String,
}

impl Case {
    pub fn new(key: u64, label: impl Into<String>) -> Self {
        Self {
            key,
            label: label.into(),
        }
    }

    /// For experiments that have only one.
    pub fn only() -> Self {
        Self::new(0, "")
    }
}

impl Plan {
    /// Without preparation, `rounds` times.
    pub fn of(rounds: usize, points: Vec<Planned>) -> Self {
        Self {
            points,
            rounds,
            ..Self::default()
        }
    }

    /// How long it will take, as planned.
    pub fn cost(&self) -> Duration {
        let round: Duration = self.points.iter().map(|planned| planned.cost).sum();
        self.preparation + round * self.rounds as u32
    }
}
