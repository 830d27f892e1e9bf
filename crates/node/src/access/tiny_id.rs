//! The tokens of TinyID: read from their file at the start, and again while the node runs.
//!
//! Invariants:
//! - Only the hashes of tokens are kept and looked up, so that the duration of a comparison reveals
//!   nothing about a token.
//! - If the file cannot be used, the tokens in force remain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use seqd_api::{TokenError, read_private};

use super::reread::Reread;
use super::token::hash;
use crate::config::{Config, ConfigError};

/// The longest file: about 20,000 lines.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The biz types that each token permits, by the hash of the token.
type Permitted = BTreeMap<[u8; 32], BTreeSet<String>>;

#[derive(Debug)]
pub(crate) struct TinyIdTokens(Reread<Permitted>);

impl TinyIdTokens {
    /// Reads the file that `config` names.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(crate) fn load(config: &Config) -> Result<Option<Arc<Self>>, ConfigError> {
        let Some(path) = &config.compat.tinyid_tokens else {
            return Ok(None);
        };
        let refused = |error| ConfigError(format!("compat.tinyid_tokens: {error}"));
        let permitted = read(path).map_err(refused)?;
        Ok(Some(Arc::new(Self(Reread::new(
            path.clone(),
            read,
            permitted,
        )))))
    }

    /// Returns whether a token permits requests for a biz type.
    pub(crate) fn permit(&self, token: &str, biz_type: &str) -> bool {
        let in_force = self.0.in_force();
        let permitted = in_force.get(&hash(token.as_bytes()).0);
        permitted.is_some_and(|types| types.contains(biz_type))
    }

    /// Rereads the file periodically and puts changed tokens in force.
    pub(crate) async fn keep_fresh(self: Arc<Self>) {
        let tell = |looked: Result<(), &TokenError>| {
            if let Err(error) = looked {
                tracing::warn!(
                    "compat.tinyid_tokens: the file cannot be used, the tokens in force are kept: \
                     {error}"
                );
            }
        };
        self.0.keep_fresh(tell).await;
    }
}

fn read(path: &Path) -> Result<Permitted, TokenError> {
    let text = read_private(path, MAX_FILE_BYTES)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let why = format!("the file has more than {MAX_FILE_BYTES} bytes");
        return Err(TokenError::of_file(path, &why));
    }
    let mut permitted = Permitted::new();
    for (at, line) in (1..).zip(text.lines()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [token, biz_type] => {
                let types = permitted.entry(hash(token.as_bytes()).0).or_default();
                types.insert(biz_type.to_owned());
            }
            _ => {
                let why = format!("line {at} is not TOKEN BIZTYPE");
                return Err(TokenError::of_file(path, &why));
            }
        }
    }
    // A file that is being written is empty for a moment.
    if permitted.is_empty() {
        return Err(TokenError::of_file(path, "no line is TOKEN BIZTYPE"));
    }
    Ok(permitted)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const LINE: &str = "0f673adf80504e2eaa552f5d791b644c order\n";

    #[test]
    fn a_file_without_a_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        write(&path, LINE).unwrap();
        set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        for unfit in [&b""[..], b"\n \n", b"\xff\xfe", b"a\n"] {
            write(&path, unfit).unwrap();
            read(&path).unwrap_err();
        }
        write(&path, LINE).unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
    }
}
