//! The kinds of session state that a text may touch.

use bitflags::bitflags;

bitflags! {
    /// What a text may do: a superset of the truth. Empty means that it leaves no session state behind and that its
    /// answer does not depend on any, as far as its words and the learnt names tell.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Suspicion: u32 {
        /// Parameters: SET, RESET, `set_config`, an UPDATE of `pg_settings`.
        const SETTINGS = 1;
        /// The role or the session's authorization.
        const ROLE = 1 << 1;
        /// PREPARE, EXECUTE, DEALLOCATE.
        const PREPARED = 1 << 2;
        /// Session advisory locks, taken or given back. Those that end with the transaction are none.
        const ADVISORY_LOCK = 1 << 3;
        /// Temporary objects, or a mention of `pg_temp`.
        const TEMPORARY = 1 << 4;
        /// DECLARE WITH HOLD, and CLOSE, which may end it.
        const HOLD_CURSOR = 1 << 5;
        /// LISTEN, UNLISTEN.
        const LISTEN = 1 << 6;
        /// NOTIFY, `pg_notify`.
        const NOTIFY = 1 << 7;
        /// `currval`, `lastval`.
        const SEQUENCE_READ = 1 << 8;
        /// `setseed`, and the parameter `seed`.
        const SEED = 1 << 9;
        /// LOAD.
        const LIBRARY = 1 << 10;
        /// DISCARD.
        const DISCARD = 1 << 11;
        /// BEGIN, COMMIT, ROLLBACK, SAVEPOINT and their kin.
        const TRANSACTION = 1 << 12;
        /// Code that the text does not show: DO, CALL, CREATE EXTENSION, text that is executed, a hidden identifier.
        const OPAQUE = 1 << 13;
        /// Reads what this session holds: `pg_prepared_statements`, `pg_cursors`, `pg_locks` and others.
        const SESSION_CATALOG = 1 << 14;
        /// CREATE, ALTER, DROP: the learnt names may be out of date.
        const CATALOG_CHANGE = 1 << 15;
        /// State that no query on the server shows: `dblink_connect`, replication origins, the globals of plpython.
        const UNSEEN = 1 << 16;
        /// Through something that the catalogue tells of: the text does not say what is set, and which parameters are is for
        /// [`LearntNames::settings`](crate::LearntNames::settings) to say.
        const LEARNT = 1 << 17;
        /// Sets a parameter whose name is in no text, for longer than the transaction.
        const UNNAMED = 1 << 18;
    }
}
