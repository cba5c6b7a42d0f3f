//! The ledger of server connections: how many each pool, database and user has, how many they may have, and who could not
//! get one. It is exact because every connection takes its place here before it is dialled and gives it back when it is gone.
//! Asked only on the slow path: whoever finds an idle server connection does not come here.

use crate::time::Time;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// A pool's number in this process. Used again for another pool only long after the first has been removed ([`Ledger::remove_pool`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct PoolId(pub u32);

/// How many server connections a pool, its database and its user may have. 0 means no limit, except for `reserve`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    pub pool: u32,
    pub reserve: u32,
    /// How long a client must have waited before the reserve is opened to it.
    pub reserve_after: Duration,
    pub database: u32,
    pub user: u32,
}

/// The limit that stood in the way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    Pool,
    Database,
    User,
}

impl Limit {
    /// The setting that an operator would change.
    pub fn setting(self) -> &'static str {
        match self {
            Limit::Pool => "pool_size",
            Limit::Database => "max_db_connections",
            Limit::User => "max_user_connections",
        }
    }
}

/// Somebody who asked in vain: a worker, for the clients that wait in one of its pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    pub pool: PoolId,
    pub worker: usize,
    /// Since when the oldest of these clients waits.
    pub since: Time,
}

#[derive(Default)]
pub struct Ledger {
    pools: Vec<PoolAccount>,
    databases: Accounts,
    users: Accounts,
    wishes: VecDeque<Wish>,
    /// Numbers of pools that have been removed, and when.
    removed: VecDeque<(PoolId, Time)>,
    vacant: Vec<PoolId>,
}

/// A number is not used again before every message that names it has been read.
const REST: Duration = Duration::from_secs(60);

struct PoolAccount {
    database: usize,
    user: usize,
    limits: Limits,
    open: u32,
}

/// Connections by name.
#[derive(Default)]
struct Accounts {
    numbers: HashMap<Box<str>, usize>,
    open: Vec<u32>,
    pools: Vec<u32>,
    vacant: Vec<usize>,
}

impl Accounts {
    /// The number for one more pool.
    fn number(&mut self, name: &str) -> usize {
        let number = self.numbers.get(name).copied();
        let number = number.unwrap_or_else(|| self.add(name));
        self.pools[number] += 1;
        number
    }

    fn add(&mut self, name: &str) -> usize {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.open.push(0);
            self.pools.push(0);
            self.open.len() - 1
        });
        self.numbers.insert(name.into(), number);
        number
    }

    /// One pool less has it.
    fn release(&mut self, number: usize) {
        self.pools[number] -= 1;
        if self.pools[number] == 0 {
            self.numbers.retain(|_, known| *known != number);
            self.vacant.push(number);
        }
    }

    fn open_for(&self, name: &str) -> u32 {
        self.numbers
            .get(name)
            .map_or(0, |&number| self.open[number])
    }
}

impl Ledger {
    pub fn add_pool(&mut self, database: &str, user: &str, limits: Limits) -> PoolId {
        let account = PoolAccount {
            database: self.databases.number(database),
            user: self.users.number(user),
            limits,
            open: 0,
        };
        if let Some(id) = self.vacant.pop() {
            self.pools[id.0 as usize] = account;
            return id;
        }
        self.pools.push(account);
        PoolId((self.pools.len() - 1) as u32)
    }

    /// Forgets a pool; false if it has connections.
    pub fn remove_pool(&mut self, pool: PoolId, now: Time) -> bool {
        let PoolAccount {
            open,
            database,
            user,
            ..
        } = self.pools[pool.0 as usize];
        if open > 0 {
            return false;
        }
        self.wishes.retain(|wish| wish.pool != pool);
        self.databases.release(database);
        self.users.release(user);
        self.removed.push_back((pool, now));
        true
    }

    /// Numbers of pools that were removed long ago may be used again.
    pub fn settle(&mut self, now: Time) {
        while let Some((pool, since)) = self.removed.front()
            && now.since(*since) >= REST
        {
            self.vacant.push(*pool);
            self.removed.pop_front();
        }
    }

    /// New limits hold from now on; connections beyond them are not taken away, but not replaced either.
    pub fn set_limits(&mut self, pool: PoolId, limits: Limits) {
        self.pools[pool.0 as usize].limits = limits;
    }

    /// Takes a place for one more connection, or notes the wish.
    pub fn request(&mut self, wish: Wish, now: Time) -> Result<(), Limit> {
        self.withdraw(wish.pool, wish.worker);
        let answer = self.may_open(wish.pool, now.since(wish.since));
        match answer {
            Ok(()) => self.open(wish.pool),
            Err(_) => {
                let at = self
                    .wishes
                    .partition_point(|other| other.since <= wish.since);
                self.wishes.insert(at, wish);
            }
        }
        answer
    }

    /// Takes a place without a client that waits for it (to keep a pool warm); a refusal is not noted.
    pub fn try_open(&mut self, pool: PoolId) -> Result<(), Limit> {
        self.may_open(pool, Duration::ZERO)?;
        self.open(pool);
        Ok(())
    }

    /// The clients of this pool and worker no longer need another connection.
    pub fn withdraw(&mut self, pool: PoolId, worker: usize) {
        self.wishes
            .retain(|wish| (wish.pool, wish.worker) != (pool, worker));
    }

    /// Gives a place back. The oldest wish that can be met now is met, its place taken, and returned. The place may have stood in the way
    /// of more than one (by its database for one pool, by its user for another): ask `grant` until there is none.
    #[must_use = "the place of the wish is taken"]
    pub fn release(&mut self, pool: PoolId, now: Time) -> Option<Wish> {
        let account = &mut self.pools[pool.0 as usize];
        account.open -= 1;
        self.databases.open[account.database] -= 1;
        self.users.open[account.user] -= 1;
        self.grant(now)
    }

    /// Meets the oldest wish that can be met now, after limits have changed or time has opened a reserve.
    pub fn grant(&mut self, now: Time) -> Option<Wish> {
        let at = self
            .wishes
            .iter()
            .position(|wish| self.may_open(wish.pool, now.since(wish.since)).is_ok())?;
        let wish = self.wishes.remove(at)?;
        self.open(wish.pool);
        Some(wish)
    }

    /// Whether an older wish of another pool would be met if this pool gave up a connection.
    pub fn owed_elsewhere(&self, pool: PoolId, older_than: Time) -> bool {
        let account = &self.pools[pool.0 as usize];
        self.wishes
            .iter()
            .take_while(|wish| wish.since < older_than)
            .any(|wish| {
                let other = &self.pools[wish.pool.0 as usize];
                wish.pool != pool
                    && match self.may_open(wish.pool, Duration::ZERO) {
                        Err(Limit::Database) => other.database == account.database,
                        Err(Limit::User) => other.user == account.user,
                        _ => false,
                    }
            })
    }

    /// The pools that could give up a connection for `pool`, which met `limit`.
    pub fn rivals(&self, pool: PoolId, limit: Limit) -> impl Iterator<Item = PoolId> {
        let (database, user) = (
            self.pools[pool.0 as usize].database,
            self.pools[pool.0 as usize].user,
        );
        self.pools
            .iter()
            .enumerate()
            .filter_map(move |(number, other)| {
                let shares = match limit {
                    Limit::Pool => false,
                    Limit::Database => other.database == database,
                    Limit::User => other.user == user,
                };
                let id = PoolId(number as u32);
                (shares && id != pool && other.open > 0).then_some(id)
            })
    }

    pub fn wishes(&self) -> usize {
        self.wishes.len()
    }

    /// Wishes of pools that share a limit with others: only these can be met by another pool.
    pub fn shared_wishes(&self) -> u32 {
        let shares = |wish: &&Wish| {
            let limits = &self.pools[wish.pool.0 as usize].limits;
            limits.database != 0 || limits.user != 0
        };
        self.wishes.iter().filter(shares).count() as u32
    }

    pub fn open_in_pool(&self, pool: PoolId) -> u32 {
        self.pools[pool.0 as usize].open
    }

    pub fn open_for_database(&self, name: &str) -> u32 {
        self.databases.open_for(name)
    }

    pub fn open_for_user(&self, name: &str) -> u32 {
        self.users.open_for(name)
    }

    fn may_open(&self, pool: PoolId, waited: Duration) -> Result<(), Limit> {
        let PoolAccount {
            database,
            user,
            limits,
            open,
        } = &self.pools[pool.0 as usize];
        let reserve = if waited >= limits.reserve_after {
            limits.reserve
        } else {
            0
        };
        let room = |open: u32, limit: u32| limit == 0 || open < limit;
        if limits.pool != 0 && !room(*open, limits.pool.saturating_add(reserve)) {
            Err(Limit::Pool)
        } else if !room(self.databases.open[*database], limits.database) {
            Err(Limit::Database)
        } else if !room(self.users.open[*user], limits.user) {
            Err(Limit::User)
        } else {
            Ok(())
        }
    }

    fn open(&mut self, pool: PoolId) {
        let account = &mut self.pools[pool.0 as usize];
        account.open += 1;
        self.databases.open[account.database] += 1;
        self.users.open[account.user] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn limits(pool: u32, reserve: u32, database: u32, user: u32) -> Limits {
        Limits {
            pool,
            reserve,
            reserve_after: Duration::from_secs(5),
            database,
            user,
        }
    }

    fn wish(pool: PoolId, worker: usize, since: u64) -> Wish {
        Wish {
            pool,
            worker,
            since: Time(since),
        }
    }

    #[test]
    fn a_pool_has_a_size_and_a_reserve_for_those_who_waited() {
        let mut ledger = Ledger::default();
        let pool = ledger.add_pool("db", "user", limits(1, 1, 0, 0));
        assert_eq!(ledger.request(wish(pool, 0, 0), Time(0)), Ok(()));
        assert_eq!(
            ledger.request(wish(pool, 0, 0), Time(SECOND)),
            Err(Limit::Pool)
        );
        assert_eq!(ledger.request(wish(pool, 0, 0), Time(5 * SECOND)), Ok(()));
        assert_eq!(
            ledger.request(wish(pool, 0, 0), Time(9 * SECOND)),
            Err(Limit::Pool)
        );
        assert_eq!(ledger.open_in_pool(pool), 2);
    }

    #[test]
    fn a_place_given_back_goes_to_the_oldest_wish_that_it_helps() {
        let mut ledger = Ledger::default();
        let a = ledger.add_pool("db", "a", limits(2, 0, 2, 0));
        let b = ledger.add_pool("db", "b", limits(2, 0, 2, 0));
        let elsewhere = ledger.add_pool("other", "a", limits(1, 0, 0, 0));
        for pool in [a, a, elsewhere] {
            assert_eq!(ledger.request(wish(pool, 0, 0), Time(0)), Ok(()));
        }
        assert_eq!(
            ledger.request(wish(elsewhere, 0, 1), Time(1)),
            Err(Limit::Pool)
        );
        assert_eq!(ledger.request(wish(a, 1, 3), Time(3)), Err(Limit::Pool));
        assert_eq!(ledger.request(wish(b, 0, 2), Time(3)), Err(Limit::Database));
        assert!(ledger.owed_elsewhere(a, Time(3)) && !ledger.owed_elsewhere(elsewhere, Time(3)));
        assert_eq!((ledger.wishes(), ledger.shared_wishes()), (3, 2));
        assert_eq!(ledger.rivals(b, Limit::Database).collect::<Vec<_>>(), [a]);
        assert_eq!(ledger.release(a, Time(4)), Some(wish(b, 0, 2)));
        assert_eq!(ledger.open_for_database("db"), 2);
        assert_eq!(ledger.release(b, Time(5)), Some(wish(a, 1, 3)));
        assert_eq!(ledger.release(a, Time(6)), None);
        assert_eq!((ledger.wishes(), ledger.open_for_user("a")), (1, 2));
    }

    #[test]
    fn one_place_may_help_two_wishes() {
        let mut ledger = Ledger::default();
        let given = ledger.add_pool("db", "user", limits(0, 0, 1, 1));
        let by_database = ledger.add_pool("db", "other", limits(0, 0, 1, 1));
        let by_user = ledger.add_pool("other", "user", limits(0, 0, 1, 1));
        assert_eq!(ledger.try_open(given), Ok(()));
        assert_eq!(
            ledger.request(wish(by_database, 0, 1), Time(1)),
            Err(Limit::Database)
        );
        assert_eq!(
            ledger.request(wish(by_user, 0, 2), Time(2)),
            Err(Limit::User)
        );
        assert_eq!(
            ledger.release(given, Time(3)),
            Some(wish(by_database, 0, 1))
        );
        assert_eq!(ledger.grant(Time(3)), Some(wish(by_user, 0, 2)));
        assert_eq!(ledger.grant(Time(3)), None);
    }

    #[test]
    fn a_number_is_used_again_long_after_its_pool_was_removed() {
        let mut ledger = Ledger::default();
        let (a, b) = (
            ledger.add_pool("db", "a", limits(1, 0, 1, 0)),
            ledger.add_pool("db", "b", limits(1, 0, 1, 0)),
        );
        assert_eq!(ledger.try_open(a), Ok(()));
        assert!(ledger.request(wish(b, 0, 1), Time(1)).is_err());
        assert!(!ledger.remove_pool(a, Time(1)) && ledger.remove_pool(b, Time(1)));
        assert_eq!((ledger.wishes(), ledger.open_for_database("db")), (0, 1));
        assert_eq!(ledger.release(a, Time(2)), None);
        assert!(ledger.remove_pool(a, Time(2)));
        ledger.settle(Time(59 * SECOND));
        let c = ledger.add_pool("other", "c", limits(1, 0, 1, 0));
        assert!(c != a && c != b);
        ledger.settle(Time(70 * SECOND));
        let reused = [
            ledger.add_pool("d", "d", limits(1, 0, 1, 0)),
            ledger.add_pool("e", "e", limits(1, 0, 1, 0)),
        ];
        assert!(reused.contains(&a) && reused.contains(&b));
        assert_eq!(ledger.try_open(reused[0]), Ok(()));
        assert_eq!(ledger.open_for_database("d"), 1);
        assert_eq!(
            (
                ledger.open_for_database("e"),
                ledger.open_for_database("db")
            ),
            (0, 0)
        );
    }

    #[test]
    fn a_wish_can_be_withdrawn_and_is_kept_once() {
        let mut ledger = Ledger::default();
        let pool = ledger.add_pool("db", "user", limits(1, 0, 0, 0));
        assert_eq!(ledger.try_open(pool), Ok(()));
        for since in 1..4 {
            assert!(ledger.request(wish(pool, 0, since), Time(since)).is_err());
        }
        assert_eq!(ledger.wishes(), 1);
        ledger.withdraw(pool, 0);
        assert_eq!(ledger.release(pool, Time(9)), None);
    }
}
