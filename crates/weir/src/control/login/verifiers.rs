//! SCRAM verifiers of users whose stored secret is a password. Making one costs milliseconds (PBKDF2), so it happens off the control
//! thread, a few at a time, and once for each password.

use auth::Password;
use auth::scram::{ITERATIONS_MAX, SALT_LENGTH, ScramVerifier};
use rand::RngCore;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OnceCell, Semaphore};

/// Users whose verifier is kept.
const KNOWN_MAX: usize = 100_000;

pub struct Verifiers {
    known: Mutex<HashMap<String, Known>>,
    /// Derivations that may run at the same time: a flood of log-ins must not take all cores.
    places: Semaphore,
}

#[derive(Clone)]
struct Known {
    password: Password,
    iterations: u32,
    verifier: Arc<OnceCell<ScramVerifier>>,
}

impl Verifiers {
    pub fn new() -> Verifiers {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Verifiers {
            known: Mutex::default(),
            places: Semaphore::new(cores.div_ceil(2)),
        }
    }

    /// The verifier of a user's password; log-ins that come while it is being made wait for it. `None` if the process is ending.
    pub async fn of(
        &self,
        user: &str,
        password: &Password,
        iterations: u32,
    ) -> Option<ScramVerifier> {
        let known = self.entry(user, password, iterations);
        let make = || async {
            let password = password.clone();
            self.off_thread(move || derive(&password, iterations))
                .await
                .ok_or(())
        };
        known.verifier.get_or_try_init(make).await.ok().cloned()
    }

    fn entry(&self, user: &str, password: &Password, iterations: u32) -> Known {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known
            .get(user)
            .filter(|found| found.iterations == iterations && found.password == *password)
        {
            return found.clone();
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        let entry = Known {
            password: password.clone(),
            iterations,
            verifier: Arc::default(),
        };
        known.insert(user.to_owned(), entry.clone());
        entry
    }

    /// Runs expensive work on another thread. `None` if the process is ending.
    pub async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _place = self.places.acquire().await.ok()?;
        tokio::task::spawn_blocking(work).await.ok()
    }
}

fn derive(password: &Password, iterations: u32) -> ScramVerifier {
    let mut salt = [0; SALT_LENGTH];
    rand::rng().fill_bytes(&mut salt);
    ScramVerifier::from_password(password.as_bytes(), &salt, iterations.min(ITERATIONS_MAX))
}
