//! What is known of one database's catalogue, and whether somebody is to ask for more. The control thread decides when to ask and draws the
//! conclusions; a server connection that a worker has free runs the query (`worker/errand.rs`).
//!
//! Until the catalogue has been read, or cannot be, no server connection serves clients: which parameters the database's functions set is known from
//! nowhere else. After a change nobody waits: until it has been read anew, every statement may do anything.

use arc_swap::{ArcSwap, Guard};
use pooling::Watch;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct Catalogue {
    /// The words by which statements that may change a session are known.
    watch: ArcSwap<Watch>,
    /// Counted up when it may have changed: an answer to an older question tells nothing.
    changes: AtomicU32,
    /// What is to be asked; an [`Errand`], or `NOTHING`.
    wanted: AtomicU8,
    /// Clients may be served.
    open: AtomicBool,
    /// For the control thread.
    learnt: Mutex<Learnt>,
}

/// A question to the catalogue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
    /// Has it changed?
    Fingerprint = 1,
    /// Everything.
    Names = 2,
}

const NOTHING: u8 = 0;

/// What the catalogue said when it was last read.
#[derive(Default)]
pub struct Learnt {
    /// Its fingerprint, and the words of that moment.
    pub words: Option<(Box<str>, Arc<Watch>)>,
    /// The log says already that it cannot be read.
    pub complained: bool,
    /// Server connections that have been lost over the question since.
    pub lost: u32,
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        Catalogue {
            watch: ArcSwap::from_pointee(Watch::unknown()),
            changes: AtomicU32::new(0),
            wanted: AtomicU8::new(Errand::Names as u8),
            open: AtomicBool::new(false),
            learnt: Mutex::default(),
        }
    }
}

impl Catalogue {
    pub fn watch(&self) -> Guard<Arc<Watch>> {
        self.watch.load()
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Clients are served with what is known.
    pub fn open(&self) {
        self.open.store(true, Ordering::Relaxed);
    }

    pub fn changes(&self) -> u32 {
        self.changes.load(Ordering::SeqCst)
    }

    pub fn want(&self, errand: Errand) {
        self.wanted.fetch_max(errand as u8, Ordering::Relaxed);
    }

    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != NOTHING
    }

    /// Takes the errand upon oneself, if there is one.
    pub fn take_errand(&self) -> Option<Errand> {
        if !self.is_wanted() {
            return None;
        }
        match self.wanted.swap(NOTHING, Ordering::Relaxed) {
            NOTHING => None,
            it if it == Errand::Fingerprint as u8 => Some(Errand::Fingerprint),
            _ => Some(Errand::Names),
        }
    }

    /// It may have changed, by statements that mention the parameters in `mentioned`. True if the names were known until now.
    pub fn changed(&self, mentioned: &std::collections::BTreeSet<Box<str>>) -> bool {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.watch.rcu(|watch| watch.outdated(mentioned)).is_known()
    }

    /// The answer to a question that was put at `asked_at`. False if it is out of date already.
    pub fn learn(&self, asked_at: u32, words: &Watch) -> bool {
        let mut taken = false;
        self.watch.rcu(|watch| {
            taken = self.changes() == asked_at;
            match taken {
                true => Arc::new(words.after(watch)),
                false => Arc::clone(watch),
            }
        });
        taken
    }

    /// It is another one now: what is known of it is no longer.
    pub fn forget(&self) {
        self.open.store(false, Ordering::Relaxed);
        self.relearn();
    }

    /// What follows from it is another thing now.
    pub fn relearn(&self) {
        self.learnt().words = None;
        self.changed(&Default::default());
        self.want(Errand::Names);
    }

    pub fn learnt(&self) -> MutexGuard<'_, Learnt> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::LearntNames;

    #[test]
    fn an_answer_that_a_change_has_overtaken_is_not_believed() {
        let catalogue = Catalogue::default();
        assert_eq!(catalogue.take_errand(), Some(Errand::Names));
        assert_eq!(catalogue.take_errand(), None);
        let words = Watch::new(&LearntNames::default(), 0);
        let asked_at = catalogue.changes();
        assert!(catalogue.learn(asked_at, &words));
        assert!(catalogue.watch().is_known());
        let asked_at = catalogue.changes();
        assert!(catalogue.changed(&["app.x".into()].into()));
        assert!(!catalogue.changed(&Default::default()));
        assert!(!catalogue.learn(asked_at, &words));
        assert!(!catalogue.watch().is_known());
        assert!(catalogue.learn(catalogue.changes(), &words));
        assert!(catalogue.watch().is_known());
    }

    #[test]
    fn the_greater_errand_counts() {
        let catalogue = Catalogue::default();
        catalogue.want(Errand::Fingerprint);
        assert_eq!(catalogue.take_errand(), Some(Errand::Names));
        catalogue.want(Errand::Fingerprint);
        assert_eq!(catalogue.take_errand(), Some(Errand::Fingerprint));
    }
}
