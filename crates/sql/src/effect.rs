//! What a statement does to the session, as its text says. Whether it succeeds only the server knows.

use crate::{Name, Suspicion};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// No session state changes.
    Nothing,
    Set {
        name: Name,
        value: SetValue,
        scope: Scope,
    },
    /// SET SESSION CHARACTERISTICS AS TRANSACTION: parameters and their values.
    SetCharacteristics {
        modes: Vec<Mode>,
        scope: Scope,
    },
    /// SET TRANSACTION, SET CONSTRAINTS: ends with the transaction whatever the scope.
    SetTransaction,
    /// SET seed: as `setseed`.
    SetSeed,
    SetRole {
        /// `Default` is RESET ROLE.
        value: SetValue,
        scope: Scope,
    },
    SetSessionAuthorization {
        value: SetValue,
        scope: Scope,
    },
    Reset(Name),
    ResetAll,
    ResetRole,
    ResetSessionAuthorization,
    /// `text` is from the first token behind AS on; `types` what stands between the parentheses.
    Prepare {
        name: Name,
        types: Option<Vec<u8>>,
        text: Vec<u8>,
    },
    /// EXECUTE, also in EXPLAIN. `arguments` with their parentheses; empty if there are none.
    Execute {
        name: Name,
        arguments: Vec<u8>,
    },
    Deallocate(All<Name>),
    Listen(Name),
    Unlisten(All<Name>),
    Notify(Name),
    DiscardAll,
    DiscardPlans,
    DiscardSequences,
    DiscardTemporary,
    Begin,
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(Name),
    RollbackTo(Name),
    Release(Name),
    PrepareTransaction,
    /// COMMIT PREPARED, ROLLBACK PREPARED: another transaction than the session's.
    FinishPrepared,
    /// The file's name.
    Load(Vec<u8>),
    DeclareCursor {
        name: Name,
        hold: bool,
    },
    CloseCursor(All<Name>),
    Show(All<Name>),
}

/// One thing or all of its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum All<T> {
    All,
    One(T),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Session,
    /// Until the transaction ends.
    Local,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetValue {
    /// DEFAULT, and LOCAL of SET TIME ZONE.
    Default,
    /// `raw` is what stands behind `=` or TO, to be said again under the same `standard_conforming_strings` and encoding.
    Items { raw: Vec<u8>, items: Vec<Item> },
    /// SET TIME ZONE INTERVAL: only to be said again.
    Interval { raw: Vec<u8> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A literal or a word, decoded.
    Text(Vec<u8>),
    /// With its sign, without a blank.
    Number(Vec<u8>),
}

/// A transaction's characteristic as the parameter that is its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    pub parameter: &'static str,
    pub value: &'static str,
}

impl Effect {
    /// What a scanner says of such a statement.
    pub fn suspicion(&self) -> Suspicion {
        match self {
            Self::Nothing | Self::Show(_) | Self::DeclareCursor { hold: false, .. } => {
                Suspicion::empty()
            }
            Self::Set { .. }
            | Self::SetCharacteristics { .. }
            | Self::SetTransaction
            | Self::Reset(_)
            | Self::ResetAll => Suspicion::SETTINGS,
            Self::SetSeed => Suspicion::SETTINGS | Suspicion::SEED,
            Self::SetRole { .. }
            | Self::SetSessionAuthorization { .. }
            | Self::ResetRole
            | Self::ResetSessionAuthorization => Suspicion::SETTINGS | Suspicion::ROLE,
            Self::Prepare { .. } | Self::Execute { .. } | Self::Deallocate(_) => {
                Suspicion::PREPARED
            }
            Self::Listen(_) | Self::Unlisten(_) => Suspicion::LISTEN,
            Self::Notify(_) => Suspicion::NOTIFY,
            Self::DiscardAll | Self::DiscardPlans | Self::DiscardSequences => Suspicion::DISCARD,
            Self::DiscardTemporary => Suspicion::DISCARD | Suspicion::TEMPORARY,
            Self::Begin
            | Self::Commit { .. }
            | Self::Rollback { .. }
            | Self::Savepoint(_)
            | Self::RollbackTo(_)
            | Self::Release(_)
            | Self::PrepareTransaction
            | Self::FinishPrepared => Suspicion::TRANSACTION,
            Self::Load(_) => Suspicion::LIBRARY,
            Self::DeclareCursor { hold: true, .. } | Self::CloseCursor(_) => Suspicion::HOLD_CURSOR,
        }
    }

    /// Does the statement evaluate expressions, which may do more than the statement itself? PREPARE does not: what it
    /// prepares is executed later.
    pub fn evaluates(&self) -> bool {
        matches!(self, Self::Execute { .. } | Self::DeclareCursor { .. })
    }
}
