//! The form of a one-time token: a snowflake ID in base62, 11 characters wide, and 128 random bits
//! in base62, 22 characters wide. The cluster stores the ID and the SHA-256 of the 22 characters.

use seqd_api::IdFormat;
use seqd_state::{OneTimeId, TokenHash};
use sha2::{Digest as _, Sha256};

const ID_WIDTH: usize = 11;

const SECRET_WIDTH: usize = 2 * ID_WIDTH;

/// A new token, with the hash that the cluster stores.
pub(super) struct NewToken {
    pub(super) text: String,
    pub(super) hash: TokenHash,
}

/// Draws the secret of a token with this ID.
///
/// # Errors
/// The operating system has no random bytes.
pub(super) fn draw(id: u64) -> Result<NewToken, getrandom::Error> {
    let half = || getrandom::u64().map(|random| IdFormat::Base62.encode(random));
    let secret = half()? + &half()?;
    Ok(NewToken {
        text: format!("{}{secret}", id_text(OneTimeId(id))),
        hash: hash(&secret),
    })
}

/// The ID and the hash by which the cluster finds a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OneTimeText {
    pub(super) id: OneTimeId,
    pub(super) hash: TokenHash,
}

/// The public part of a token, in the form that it has in the token.
pub(super) fn id_text(id: OneTimeId) -> String {
    IdFormat::Base62.encode(id.0)
}

/// Reads the public part of a token; `None` if the text cannot be one.
pub(super) fn read_id(text: &str) -> Option<OneTimeId> {
    let is_fit = text.len() == ID_WIDTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let id = is_fit.then(|| IdFormat::Base62.parse(text).ok());
    id.flatten().map(OneTimeId)
}

impl OneTimeText {
    /// Reads a token; `None` if the text cannot be one.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (id, secret) = text.split_at_checked(ID_WIDTH)?;
        let is_fit =
            secret.len() == SECRET_WIDTH && secret.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let id = read_id(id).filter(|_| is_fit)?;
        let hash = hash(secret);
        Some(Self { id, hash })
    }
}

fn hash(secret: &str) -> TokenHash {
    TokenHash(Sha256::digest(secret.as_bytes()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_drawn() {
        for id in [0, 117_450_583_018_840_064, u64::MAX] {
            let drawn = draw(id).unwrap();
            assert_eq!(drawn.text.len(), 33);
            let read = OneTimeText::read(&drawn.text).unwrap();
            assert_eq!((read.id, read.hash), (OneTimeId(id), drawn.hash));
            let mut other = drawn.text.clone().into_bytes();
            other[32] = if other[32] == b'0' { b'1' } else { b'0' };
            let other = OneTimeText::read(std::str::from_utf8(&other).unwrap()).unwrap();
            assert_ne!(other.hash, drawn.hash);
        }
        assert_ne!(draw(1).unwrap().text, draw(1).unwrap().text);
    }

    #[test]
    fn a_malformed_token_is_refused() {
        let long = "0".repeat(34);
        let above = "z".repeat(33);
        for text in ["", "0", &long, &above, &"-".repeat(33), &"é".repeat(33)] {
            assert_eq!(OneTimeText::read(text), None, "{text}");
        }
    }
}
