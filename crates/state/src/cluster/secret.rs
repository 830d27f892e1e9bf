//! The secret of the cluster. Tokens that leave the cluster are derived from it, so that they
//! cannot be guessed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::table::{Table, record};

/// Random bytes that appear in no log line and no response.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretKey(pub [u8; 32]);

impl fmt::Debug for SecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SecretKey(..)")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Secret {
    pub(crate) key: SecretKey,
}

record!(Secret, kind 19, version 1, prefix b'k', key ());

impl Table<Secret> {
    /// Stores the first proposed secret. With two secrets, tokens could not be distinguished from
    /// forged ones.
    pub(crate) fn keep(&mut self, key: SecretKey) {
        self.entry((), || Secret { key });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::commands::{ClusterCommand, ClusterOutcome};
    use crate::domains::Outcome;
    use crate::testing::{entry, founded, restore};

    #[test]
    fn the_first_secret_is_kept_and_a_restored_cluster_has_none() {
        let mut state = founded();
        for key in [SecretKey([1; 32]), SecretKey([2; 32])] {
            let keep = ClusterCommand::KeepSecret { key };
            let outcomes = state.apply(&entry(1, vec![keep.into()]), None);
            assert_eq!(outcomes, [Outcome::Cluster(ClusterOutcome::SecretKept)]);
        }
        assert_eq!(state.secret(), Some(SecretKey([1; 32])));
        assert!(!format!("{state:?}").contains("1, 1"), "it is shown");
        restore(&mut state);
        assert_eq!(state.secret(), None);
    }
}
