//! Stand-ins for users that do not exist: their log-in has to look like that of one who does, up to the end.

use auth::md5::Md5Hash;
use auth::scram::ScramVerifier;
use auth::{Secret, UserList};
use rand::RngCore;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Strangers {
    /// Random for each process: salts are made of it.
    process_secret: [u8; 32],
    hasher: RandomState,
    /// The latest user list that was asked for, and how many of its users have a SCRAM verifier.
    census: Mutex<Option<(Arc<UserList>, u64)>>,
}

impl Strangers {
    pub fn new() -> Strangers {
        let mut process_secret = [0; 32];
        rand::rng().fill_bytes(&mut process_secret);
        Strangers {
            process_secret,
            hasher: RandomState::new(),
            census: Mutex::default(),
        }
    }

    /// Whether `user`, who is not in the list, is treated as one with a SCRAM verifier: drawn by lot, always the same for one name,
    /// with the chances that the list has.
    pub fn draw_scram(&self, users: &Arc<UserList>, user: &str) -> bool {
        match self.hasher.hash_one(user).checked_rem(users.len() as u64) {
            Some(drawn) => drawn < self.with_verifier(users),
            None => true,
        }
    }

    /// Counted once for each list.
    fn with_verifier(&self, users: &Arc<UserList>) -> u64 {
        let mut census = self.census.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, count)) = &*census
            && Arc::ptr_eq(known, users)
        {
            return *count;
        }
        let has_verifier =
            |name: &&str| matches!(users.lookup(name).as_deref(), Some(Secret::Scram(_)));
        let count = users.names().filter(has_verifier).count() as u64;
        *census = Some((Arc::clone(users), count));
        count
    }

    /// A secret that no answer matches, of the kind that is to be feigned.
    pub fn stand_in(&self, user: &str, scram: bool, iterations: u32) -> Secret {
        match scram {
            true => Secret::Scram(self.verifier(user, iterations)),
            false => Secret::Md5(Md5Hash::mock(user, &self.process_secret)),
        }
    }

    /// A verifier that no proof matches.
    pub fn verifier(&self, user: &str, iterations: u32) -> ScramVerifier {
        ScramVerifier::mock(user, &self.process_secret, iterations)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn strangers_are_drawn_like_the_list_and_always_the_same() {
        let verifier = ScramVerifier::from_password(b"x", b"0123456789abcdef", 1).encode();
        let list = format!(
            "\"a\" \"{verifier}\"\n\"b\" \"{verifier}\"\n\"c\" \"plain\"\n\"d\" \"plain\"\n"
        );
        let users = Arc::new(UserList::load(&list).unwrap());
        let strangers = Strangers::new();
        let draws = |name: usize| strangers.draw_scram(&users, &name.to_string());
        let scram = (0..1000).filter(|name| draws(*name)).count();
        assert!((350..650).contains(&scram), "{scram} of 1000");
        assert!((0..1000).all(|name| draws(name) == draws(name)));
        assert!(strangers.draw_scram(&Arc::default(), "anybody"));
    }
}
