//! The ledger under random requests, releases, withdrawals, changes of limits and the passing of time, beside a plain account of what is open.

use pooling::Time;
use pooling::ledger::{Ledger, Limit, Limits, PoolId, Wish};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;
use std::time::Duration;

const STEPS: u64 = 100_000;
const STEPS_OF_ONE_LEDGER: u64 = 1_000;
const WORKERS: usize = 3;
const DATABASES: [&str; 3] = ["a", "b", "c"];
const USERS: [&str; 3] = ["x", "y", "z"];

struct Pool {
    id: PoolId,
    database: &'static str,
    user: &'static str,
    limits: Limits,
    open: u32,
}

struct World {
    rng: SmallRng,
    ledger: Ledger,
    pools: Vec<Pool>,
    /// Who waits, since when.
    wishes: HashMap<(PoolId, usize), Time>,
    now: Time,
    granted: u64,
}

struct SeedOnFailure(u64);

impl Drop for SeedOnFailure {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with POOLING_SEED={}", self.0);
        }
    }
}

#[test]
fn limits_are_exact_and_no_wish_is_forgotten() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|value| value.parse::<u64>().expect("a number"))
    };
    let seeds = match number("POOLING_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            0..number("POOLING_STEPS")
                .unwrap_or(STEPS)
                .div_ceil(STEPS_OF_ONE_LEDGER)
        }
    };
    let mut granted = 0;
    for seed in seeds.clone() {
        let _printed = SeedOnFailure(seed);
        let mut world = World::new(seed);
        (0..STEPS_OF_ONE_LEDGER).for_each(|_| world.step());
        granted += world.granted;
    }
    assert!(
        granted > (seeds.end - seeds.start),
        "hardly a wish was met later: {granted}"
    );
}

fn limits(rng: &mut SmallRng, shared: (u32, u32)) -> Limits {
    Limits {
        pool: rng.random_range(0..4),
        reserve: rng.random_range(0..2),
        reserve_after: Duration::from_micros(rng.random_range(0..100)),
        database: shared.0,
        user: shared.1,
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            rng: SmallRng::seed_from_u64(seed),
            ledger: Ledger::default(),
            pools: Vec::new(),
            wishes: HashMap::new(),
            now: Time(1_000),
            granted: 0,
        };
        for database in DATABASES {
            for user in USERS {
                let limits = limits(&mut world.rng, (3, 4));
                let id = world.ledger.add_pool(database, user, limits);
                world.pools.push(Pool {
                    id,
                    database,
                    user,
                    limits,
                    open: 0,
                });
            }
        }
        world
    }

    fn step(&mut self) {
        self.now = self
            .now
            .after(Duration::from_micros(self.rng.random_range(0..5)));
        let pool = self.rng.random_range(0..self.pools.len());
        let worker = self.rng.random_range(0..WORKERS);
        match self.rng.random_range(0..20) {
            0..9 => self.request(pool, worker),
            9 => {
                let may = self.may_open(pool, Duration::ZERO);
                assert_eq!(self.ledger.try_open(self.pools[pool].id), may);
                self.pools[pool].open += u32::from(may.is_ok());
            }
            10 => {
                self.ledger.withdraw(self.pools[pool].id, worker);
                self.wishes.remove(&(self.pools[pool].id, worker));
            }
            11 => {
                let (database, user) = (self.rng.random_range(0..4), self.rng.random_range(0..5));
                for number in 0..self.pools.len() {
                    let limits = limits(&mut self.rng, (database, user));
                    self.pools[number].limits = limits;
                    self.ledger.set_limits(self.pools[number].id, limits);
                }
            }
            _ if self.pools[pool].open > 0 => {
                self.pools[pool].open -= 1;
                let met = self.ledger.release(self.pools[pool].id, self.now);
                self.note_granted(met);
            }
            _ => {}
        }
        self.grant_all();
        self.check();
    }

    fn request(&mut self, pool: usize, worker: usize) {
        let id = self.pools[pool].id;
        let since = *self.wishes.get(&(id, worker)).unwrap_or(&self.now);
        let may = self.may_open(pool, self.now.since(since));
        assert_eq!(
            self.ledger.request(
                Wish {
                    pool: id,
                    worker,
                    since
                },
                self.now
            ),
            may
        );
        if may.is_ok() {
            self.pools[pool].open += 1;
            self.wishes.remove(&(id, worker));
        } else {
            self.wishes.insert((id, worker), since);
        }
    }

    /// As the callers do: until there is none that can be met.
    fn grant_all(&mut self) {
        while let Some(wish) = self.ledger.grant(self.now) {
            self.note_granted(Some(wish));
        }
    }

    fn note_granted(&mut self, wish: Option<Wish>) {
        let Some(wish) = wish else { return };
        let pool = self
            .pools
            .iter()
            .position(|pool| pool.id == wish.pool)
            .expect("a pool");
        let since = self
            .wishes
            .remove(&(wish.pool, wish.worker))
            .expect("somebody wished for it");
        assert_eq!(since, wish.since);
        for (&(other, _), &older) in self.wishes.iter().filter(|(_, older)| **older < since) {
            let other = self
                .pools
                .iter()
                .position(|pool| pool.id == other)
                .expect("a pool");
            assert!(
                self.may_open(other, self.now.since(older)).is_err(),
                "an older wish was passed over"
            );
        }
        assert_eq!(self.may_open(pool, self.now.since(since)), Ok(()));
        self.pools[pool].open += 1;
        self.granted += 1;
    }

    fn check(&self) {
        for (number, pool) in self.pools.iter().enumerate() {
            assert_eq!(self.ledger.open_in_pool(pool.id), pool.open);
            assert_eq!(
                self.ledger.open_for_database(pool.database),
                self.sum(|other| other.database == pool.database)
            );
            assert_eq!(
                self.ledger.open_for_user(pool.user),
                self.sum(|other| other.user == pool.user)
            );
            for (_, &since) in self
                .wishes
                .iter()
                .filter(|((wished, _), _)| *wished == pool.id)
            {
                assert!(
                    self.may_open(number, self.now.since(since)).is_err(),
                    "a wish that can be met waits"
                );
            }
        }
        assert_eq!(self.ledger.wishes(), self.wishes.len());
    }

    fn sum(&self, which: impl Fn(&Pool) -> bool) -> u32 {
        self.pools
            .iter()
            .filter(|pool| which(pool))
            .map(|pool| pool.open)
            .sum()
    }

    fn may_open(&self, pool: usize, waited: Duration) -> Result<(), Limit> {
        let Pool {
            database,
            user,
            limits,
            open,
            ..
        } = self.pools[pool];
        let reserve = if waited >= limits.reserve_after {
            limits.reserve
        } else {
            0
        };
        if limits.pool > 0 && open >= limits.pool + reserve {
            return Err(Limit::Pool);
        }
        if limits.database > 0 && self.sum(|other| other.database == database) >= limits.database {
            return Err(Limit::Database);
        }
        if limits.user > 0 && self.sum(|other| other.user == user) >= limits.user {
            return Err(Limit::User);
        }
        Ok(())
    }
}
