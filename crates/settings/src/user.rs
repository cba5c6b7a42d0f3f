//! `[users]`: what single users override. Says nothing about secrets, which are in `auth_file`.

use std::time::Duration;

use crate::database::{inherited, inherited_if_zero};
use crate::parameters::Parameter;
use crate::value::{self, PinPolicy, PoolMode};

/// One entry of `[users]`. `None` means: as set for the database or in `[pgbouncer]`. Limits and time-outs are never zero, except where it is
/// said: there PgBouncer takes 0 as not given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct User {
    pub name: String,
    /// 0: no limit.
    pub pool_size: Option<u32>,
    pub min_pool_size: Option<u32>,
    pub reserve_pool_size: Option<u32>,
    pub pool_mode: Option<PoolMode>,
    pub pin: Option<PinPolicy>,
    pub max_user_connections: Option<u32>,
    pub max_user_client_connections: Option<u32>,
    pub query_timeout: Option<Duration>,
    /// Zero: for ever.
    pub query_wait_timeout: Option<Duration>,
    pub idle_transaction_timeout: Option<Duration>,
    pub transaction_timeout: Option<Duration>,
    pub client_idle_timeout: Option<Duration>,
}

/// Every key of an entry in `[users]`.
pub(crate) const PARAMETERS: &[Parameter<User>] = &[
    Parameter {
        name: "pool_size",
        doc: "The most server connections of each of the user's pools, before the database's `pool_size` and `default_pool_size`. 0: no limit.",
        set: |user, text| inherited(text).map(|size| user.pool_size = size),
    },
    Parameter {
        name: "min_pool_size",
        doc: "Before the database's and the setting `min_pool_size`. Not in PgBouncer.",
        set: |user, text| inherited(text).map(|size| user.min_pool_size = size),
    },
    Parameter {
        name: "reserve_pool_size",
        doc: "Before the database's and the setting `reserve_pool_size`.",
        set: |user, text| inherited(text).map(|size| user.reserve_pool_size = size),
    },
    Parameter {
        name: "pool_mode",
        doc: "Before the database's and the setting `pool_mode`.",
        set: |user, text| value::parse(text).map(|mode| user.pool_mode = Some(mode)),
    },
    Parameter {
        name: "pin",
        doc: "Before the database's and the setting `pin`. Not in PgBouncer.",
        set: |user, text| value::parse(text).map(|policy| user.pin = Some(policy)),
    },
    Parameter {
        name: "max_user_connections",
        doc: "Instead of the setting `max_user_connections`. 0: as the setting.",
        set: |user, text| inherited_if_zero(text).map(|count| user.max_user_connections = count),
    },
    Parameter {
        name: "max_user_client_connections",
        doc: "Instead of the setting `max_user_client_connections`. 0: as the setting.",
        set: |user, text| {
            inherited_if_zero(text).map(|count| user.max_user_client_connections = count)
        },
    },
    Parameter {
        name: "query_timeout",
        doc: "Instead of the setting `query_timeout`, in seconds. 0: as the setting.",
        set: |user, text| inherited_if_zero(text).map(|time| user.query_timeout = time),
    },
    Parameter {
        name: "query_wait_timeout",
        doc: "Before the database's and the setting `query_wait_timeout`, in seconds. 0: for ever.",
        set: |user, text| inherited(text).map(|time| user.query_wait_timeout = time),
    },
    Parameter {
        name: "idle_transaction_timeout",
        doc: "Instead of the setting `idle_transaction_timeout`, in seconds. 0: as the setting.",
        set: |user, text| inherited_if_zero(text).map(|time| user.idle_transaction_timeout = time),
    },
    Parameter {
        name: "transaction_timeout",
        doc: "Instead of the setting `transaction_timeout`, in seconds. 0: as the setting.",
        set: |user, text| inherited_if_zero(text).map(|time| user.transaction_timeout = time),
    },
    Parameter {
        name: "client_idle_timeout",
        doc: "Instead of the setting `client_idle_timeout`, in seconds. 0: as the setting.",
        set: |user, text| inherited_if_zero(text).map(|time| user.client_idle_timeout = time),
    },
];
