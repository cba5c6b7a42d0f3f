//! The secrets that the control thread knows: the users of `auth_file`, and what earlier log-ins to PostgreSQL derived from them.
//! Used by the log-in of clients, by the dialling of servers and by RELOAD, which swaps the list.

use arc_swap::ArcSwap;
use auth::scram::DerivedKeys;
use auth::{Password, UserList};
use pooling::ledger::PoolId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Default)]
pub struct Credentials {
    /// `auth_file`, as last read.
    pub users: ArcSwap<UserList>,
    derived: Mutex<HashMap<PoolId, Derived>>,
}

/// The result of the latest PBKDF2 for a pool. It counts only for the password it was made from: a corrected password
/// meets the same salt.
struct Derived {
    password: Password,
    keys: DerivedKeys,
}

impl Credentials {
    pub fn new(users: UserList) -> Arc<Credentials> {
        Arc::new(Credentials {
            users: ArcSwap::from_pointee(users),
            derived: Mutex::default(),
        })
    }

    /// What `password` derived at the pool's latest log-in, if that was the password then.
    pub fn derived(&self, pool: PoolId, password: &Password) -> Option<DerivedKeys> {
        let known = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&pool)
            .filter(|derived| derived.password == *password)
            .map(|derived| derived.keys.clone())
    }

    pub fn forget(&self, pool: PoolId) {
        let mut known = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        known.remove(&pool);
    }

    pub fn remember(&self, pool: PoolId, password: Password, keys: DerivedKeys) {
        let mut known = self.derived.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(pool, Derived { password, keys });
    }
}
