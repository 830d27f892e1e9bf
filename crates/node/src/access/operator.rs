//! The operator's token: read from its file at the start, and again while the node runs.
//!
//! Invariants:
//! - Only the hash of the token is kept, and tokens are compared in constant time.
//! - If the file cannot be used, the token in force remains.

use std::path::Path;

use seqd_api::{Token, TokenError};
use seqd_state::TokenHash;
use sha2::{Digest as _, Sha256};

use super::reread::Reread;
use super::token::{hash, is_equal};
use crate::config::{Config, ConfigError};

/// The length of a fingerprint. Of four billion pairs of different tokens, one has equal
/// fingerprints.
const FINGERPRINT_BYTES: usize = 4;

#[derive(Debug)]
pub(crate) struct TokenFile(Reread<TokenHash>);

fn read(path: &Path) -> Result<TokenHash, TokenError> {
    Ok(hash(Token::read(path)?.secret().as_bytes()))
}

/// The reason why the file cannot be used, and how to make it if it is missing.
fn refused(path: &Path, error: &TokenError) -> ConfigError {
    let shown = path.display();
    let remedy = if !error.is_missing() {
        String::new()
    } else {
        format!(
            "; make it with (umask 077; openssl rand -hex 32 > {shown}), or copy it from another node"
        )
    };
    ConfigError(format!("auth.bootstrap_token_file: {error}{remedy}"))
}

impl TokenFile {
    /// Reads the file that `config` names, if callers need a token.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn load(config: &Config) -> Result<Option<Self>, ConfigError> {
        let auth = &config.auth;
        let (true, Some(path)) = (auth.enabled, &auth.bootstrap_token_file) else {
            return Ok(None);
        };
        let token = read(path).map_err(|error| refused(path, &error))?;
        Ok(Some(Self(Reread::new(path.clone(), read, token))))
    }

    /// A token file without an actual file, in which this token is in force.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn of_token(token: &str) -> Self {
        let path = Path::new("").to_owned();
        Self(Reread::new(path, read, hash(token.as_bytes())))
    }

    /// Returns whether this is the token in force.
    pub(super) fn is(&self, token: &[u8]) -> bool {
        is_equal(hash(token), *self.0.in_force())
    }

    /// A short hash with which the nodes of a cluster compare their tokens. Four bytes suffice to
    /// discard most wrong guesses of a token, but reveal nothing useful about a random token.
    pub(super) fn fingerprint(&self, cluster_id: &str) -> String {
        let digest = Sha256::new()
            .chain_update("seqd fingerprint of the operator's token\n")
            .chain_update(cluster_id)
            .chain_update("\n")
            .chain_update(self.0.in_force().0)
            .finalize();
        let short = digest.iter().take(FINGERPRINT_BYTES);
        short.map(|byte| format!("{byte:02x}")).collect()
    }

    /// Rereads the file periodically and puts a replaced token in force.
    pub(super) async fn keep_fresh(&self) {
        let tell = |looked: Result<(), &TokenError>| match looked {
            Ok(()) => tracing::info!("access: a new bootstrap token is in force"),
            Err(error) => tracing::warn!(
                "access: the bootstrap token file cannot be used, the token in force is kept: \
                 {error}"
            ),
        };
        self.0.keep_fresh(tell).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_differ_by_token_and_by_cluster_and_are_short() {
        let of = |token: &str, cluster: &str| TokenFile::of_token(token).fingerprint(cluster);
        let one = of("aa", "c1");
        assert_eq!(one, of("aa", "c1"));
        assert_ne!(one, of("ab", "c1"));
        assert_ne!(one, of("aa", "c2"));
        assert_eq!(one.len(), 8);
    }
}
