//! A one-time token and its use.
//!
//! Invariants:
//! - The record never contains the token itself, only its ID and the hash of its secret.
//! - A token has at most one use, which never changes.
//! - A token exists while the cluster time is below its end, whether or not its row has been
//!   dropped.

use serde::{Deserialize, Serialize};

use crate::access::TokenHash;
use crate::codec::Versioned;
use crate::context::ApplyContext;
use crate::deadlines::{Expiring, Passing};
use crate::keys::record::MAX_NONCE_BYTES;
use crate::newtypes::{ClusterMs, numbers};
use crate::table::{Record, Table};
use crate::tenant::Tenant;

numbers! {
    /// The public part of a one-time token: a snowflake ID.
    OneTimeId;
}

/// The request that consumed a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneTimeUse {
    /// The nonce of the request; empty for none.
    pub nonce: String,
    pub at: ClusterMs,
}

/// A one-time token. Its ID is the row's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneTimeRecord {
    /// The tenant that issued the token.
    pub tenant: Tenant,
    pub hash: TokenHash,
    /// The time from which the token is unknown.
    pub until: ClusterMs,
    /// Boxed, because most of the tokens in memory were not used.
    pub used: Option<Box<OneTimeUse>>,
}

impl OneTimeRecord {
    /// Returns whether the token has expired at this time.
    pub(crate) fn is_ended(&self, now: ClusterMs) -> bool {
        self.until <= now
    }
}

impl Versioned for OneTimeRecord {
    const KIND: u8 = 25;
    const VERSION: u8 = 1;
}

impl Record for OneTimeRecord {
    type Key = OneTimeId;
    const PREFIX: u8 = b't';

    fn is_sound(&self) -> bool {
        (self.used.as_ref()).is_none_or(|used| used.nonce.len() <= MAX_NONCE_BYTES)
    }

    fn charge(&self, _: &OneTimeId, charge: &mut dyn FnMut(Tenant, u64)) {
        charge(self.tenant, 0);
    }
}

impl Expiring for OneTimeRecord {
    fn deadline(&self, _: &OneTimeId, _: &ApplyContext<'_>) -> Option<ClusterMs> {
        Some(self.until)
    }

    fn pass(table: &mut Table<Self>, key: &OneTimeId, passing: Passing<'_>) {
        let is_ended = |record: &Self| record.is_ended(passing.cluster_ms);
        if table.get(key).is_some_and(is_ended) {
            table.remove(key);
        }
    }
}
