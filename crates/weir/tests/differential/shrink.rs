//! Makes a failing conversation shorter while it still fails.

use crate::arena::Ground;
use crate::compare::{self, Tally};
use crate::script::{Act, Observe, Part, Script, Unit};
use std::time::{Duration, Instant};

/// For one conversation; what is found by then is shown.
const TIME: Duration = Duration::from_secs(40);
pub const TRIES_MAX: usize = 5;

/// The shortest conversation found that fails with the pooler and not without. Unchanged if it does not fail again.
pub fn shrink(ground: &mut Ground, script: &Script) -> Script {
    ground.in_haste(|ground| {
        let mut shrinker = Shrinker {
            ground,
            best: script.clone(),
            until: Instant::now() + TIME,
            tries: TRIES_MAX,
        };
        let failed = (0..TRIES_MAX)
            .filter(|_| shrinker.fails_once(script))
            .count();
        if failed == TRIES_MAX {
            shrinker.tries = 1;
        }
        if failed > 0 && shrinker.has_an_answer(script) {
            while shrinker.pass() {}
        }
        shrinker.best
    })
}

struct Shrinker<'a> {
    ground: &'a mut Ground,
    best: Script,
    until: Instant,
    /// What fails at some moments only is tried several times.
    tries: usize,
}

impl Shrinker<'_> {
    /// Whether anything could be left out.
    fn pass(&mut self) -> bool {
        let before = self.best.clone();
        self.drop_clients();
        self.drop_steps();
        self.simplify_frame();
        self.simplify_steps();
        before != self.best && Instant::now() < self.until
    }

    fn accept(&mut self, candidate: Script) -> bool {
        if Instant::now() >= self.until || !self.fails(&candidate) {
            return false;
        }
        self.best = candidate;
        true
    }

    fn fails(&mut self, candidate: &Script) -> bool {
        (0..self.tries).any(|_| self.fails_once(candidate)) && self.has_an_answer(candidate)
    }

    fn fails_once(&mut self, candidate: &Script) -> bool {
        compare::run(self.ground, candidate, &mut Tally::default()).is_err()
    }

    /// Whether two direct runs are the same.
    fn has_an_answer(&mut self, candidate: &Script) -> bool {
        compare::run_without_a_pooler(self.ground, candidate).is_ok()
    }

    fn drop_clients(&mut self) {
        let mut clients: Vec<usize> = self.best.steps.iter().map(|step| step.client).collect();
        clients.sort_unstable();
        clients.dedup();
        for client in clients {
            let mut candidate = self.best.clone();
            candidate.steps.retain(|step| step.client != client);
            self.accept(candidate);
        }
    }

    /// From long runs of steps to single ones, from the end.
    fn drop_steps(&mut self) {
        let mut length = self.best.steps.len() / 2;
        while length > 0 {
            let mut start = self.best.steps.len().saturating_sub(length);
            loop {
                let mut candidate = self.best.clone();
                let end = (start + length).min(candidate.steps.len());
                candidate.steps.drain(start..end);
                self.accept(candidate);
                if start == 0 {
                    break;
                }
                start = start.saturating_sub(length);
            }
            length /= 2;
        }
    }

    fn simplify_frame(&mut self) {
        for pool in 1..self.best.pool {
            let mut candidate = self.best.clone();
            candidate.pool = pool;
            if self.accept(candidate) {
                break;
            }
        }
        for observe in [Observe::AtTheEnd, Observe::Actor] {
            if observe == self.best.observe {
                break;
            }
            let candidate = self.best.clone().observe(observe);
            if self.accept(candidate) {
                break;
            }
        }
    }

    fn simplify_steps(&mut self) {
        for index in 0..self.best.steps.len() {
            let mut variant = 0;
            while let Some(act) = simpler(&self.best.steps[index].act, variant) {
                let mut candidate = self.best.clone();
                candidate.steps[index].act = act;
                if !self.accept(candidate) {
                    variant += 1;
                }
            }
        }
    }
}

/// The act with one piece less: the `variant`th of its pieces.
fn simpler(act: &Act, variant: usize) -> Option<Act> {
    match act {
        Act::Connect(parameters) => without(parameters, variant).map(Act::Connect),
        Act::Leave(_) => None,
        Act::Say(units) => {
            let mut place = variant;
            if units.len() > 1 {
                if let Some(fewer) = without(units, place) {
                    return Some(Act::Say(fewer));
                }
                place -= units.len();
            }
            for (index, unit) in units.iter().enumerate() {
                let pieces = pieces(unit);
                if place < pieces {
                    let mut units = units.clone();
                    units[index] = simpler_unit(unit, place)?;
                    return Some(Act::Say(units));
                }
                place -= pieces;
            }
            None
        }
    }
}

/// In how many ways a unit can be simpler.
fn pieces(unit: &Unit) -> usize {
    match unit {
        Unit::Simple(statements) if statements.len() == 1 => 0,
        Unit::Simple(statements) => statements.len(),
        Unit::Extended(parts) => parts.len() + 1,
    }
}

fn simpler_unit(unit: &Unit, place: usize) -> Option<Unit> {
    match unit {
        Unit::Simple(statements) => without(statements, place).map(Unit::Simple),
        Unit::Extended(parts) if place < parts.len() => without(parts, place).map(Unit::Extended),
        Unit::Extended(parts) => {
            let text = |part: &Part| match part {
                Part::Parse { sql, .. } => Some(sql.clone()),
                _ => None,
            };
            Some(Unit::Simple(vec![
                parts.iter().find_map(text).unwrap_or_default(),
            ]))
        }
    }
}

fn without<T: Clone>(pieces: &[T], place: usize) -> Option<Vec<T>> {
    (place < pieces.len()).then(|| {
        let mut fewer = pieces.to_vec();
        fewer.remove(place);
        fewer
    })
}
