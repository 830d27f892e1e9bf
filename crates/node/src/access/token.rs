//! The format of a token of the cluster: `seqd_ID_SECRET`, with the ID in 16 hexadecimal digits and
//! the secret in 64. The constant prefix lets secret scanners find leaked tokens.

use seqd_api::ACCESS_MARK;
use seqd_state::{AccessId, TokenHash};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

const SECRET_BYTES: usize = 32;

/// A new token, with the data that the cluster stores about it.
pub(crate) struct NewToken {
    pub(crate) text: String,
    pub(crate) id: AccessId,
    pub(crate) hash: TokenHash,
}

impl NewToken {
    /// Draws a token.
    ///
    /// # Errors
    /// The operating system provides no random bytes.
    pub(crate) fn draw() -> Result<Self, getrandom::Error> {
        // 63 bits, because the ID also identifies the tenant.
        let id = AccessId(getrandom::u64()? >> 1);
        let secret = new_secret()?;
        Ok(Self {
            text: format!("{ACCESS_MARK}{id}_{secret}"),
            id,
            hash: hash(secret.as_bytes()),
        })
    }
}

/// A secret of 32 random bytes, in hexadecimal digits.
///
/// # Errors
/// The operating system provides no random bytes.
pub fn new_secret() -> Result<String, getrandom::Error> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret)?;
    Ok(secret.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The ID and the secret of a token; `None` if its format differs.
pub(super) fn parts(token: &[u8]) -> Option<(AccessId, &[u8])> {
    let (id, secret) = token
        .strip_prefix(ACCESS_MARK.as_bytes())?
        .split_at_checked(16)?;
    let id = AccessId::parse(std::str::from_utf8(id).ok()?)?;
    Some((id, secret.strip_prefix(b"_")?))
}

pub(super) fn hash(secret: &[u8]) -> TokenHash {
    TokenHash(Sha256::digest(secret).into())
}

/// Compares in constant time.
pub(super) fn is_equal(shown: TokenHash, kept: TokenHash) -> bool {
    shown.0.ct_eq(&kept.0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_drawn() {
        let drawn = NewToken::draw().unwrap();
        assert!(seqd_api::Token::parse(&drawn.text).is_ok(), "fits a header");
        let (id, secret) = parts(drawn.text.as_bytes()).unwrap();
        assert_eq!(id, drawn.id);
        assert!(is_equal(hash(secret), drawn.hash));
        assert!(!is_equal(hash(&secret[1..]), drawn.hash));
        for text in [
            "",
            "seqd_",
            "seqd_0123",
            "seqd_0123456789abcdef",
            "seqd_0123456789abcdeg_00",
        ] {
            assert_eq!(parts(text.as_bytes()), None, "{text}");
        }
    }
}
