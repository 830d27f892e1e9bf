//! Secrets of tokens in the targets of requests, which are logged and printed.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The paths that name a token by its ID, the number of characters of an ID, and how many of a
/// longer text are public: a one-time token begins with its ID, an access token does not.
const OF_TOKENS: [(&str, usize, usize); 2] = [("/v1/tokens/", 11, 11), ("/v1/access/", 16, 0)];

/// The beginning of an access token. Its ID follows, and after another underscore its secret.
pub const ACCESS_MARK: &str = "seqd_";

/// The number of hexadecimal digits of the ID of an access token.
const DIGITS: usize = 16;

/// A target without text that may be the secret of a token.
#[must_use]
pub fn without_secret(target: &str) -> Cow<'_, str> {
    match without_named_secret(target) {
        Cow::Borrowed(target) => without_access_secret(target),
        // It ends where the secret began.
        cut => cut,
    }
}

/// The target up to the ID of the first access token in it, such as in a query.
fn without_access_secret(target: &str) -> Cow<'_, str> {
    let decoded = percent_decode_str(target).decode_utf8_lossy();
    let is_token = |at: usize| {
        let rest = &decoded.as_bytes()[at + ACCESS_MARK.len()..];
        rest.get(DIGITS) == Some(&b'_') && rest[..DIGITS].iter().all(u8::is_ascii_hexdigit)
    };
    let mut tokens = decoded.match_indices(ACCESS_MARK).map(|(at, _)| at);
    match tokens.find(|at| is_token(*at)) {
        Some(at) => Cow::Owned(format!(
            "{}...",
            &decoded[..at + ACCESS_MARK.len() + DIGITS]
        )),
        None => Cow::Borrowed(target),
    }
}

/// The target without the secret of a token that its path names.
fn without_named_secret(target: &str) -> Cow<'_, str> {
    let of_token = OF_TOKENS
        .into_iter()
        .find_map(|(path, characters, public)| {
            Some((path, target.strip_prefix(path)?, characters, public))
        });
    let Some((path, named, characters, public)) = of_token else {
        return Cow::Borrowed(target);
    };
    match named.chars().nth(characters) {
        Some(next) if !matches!(next, '/' | '?') => {
            let public: String = named.chars().take(public).collect();
            Cow::Owned(format!("{path}{public}..."))
        }
        _ => Cow::Borrowed(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_no_secret_of_a_token() {
        let whole = "/v1/tokens/1A2b3C4d5E6secretsecretsecretsecr?dry=1";
        assert_eq!(without_secret(whole), "/v1/tokens/1A2b3C4d5E6...");
        let whole = "/v1/access/seqd_0123456789abcdef_secret?dry_run=1";
        assert_eq!(without_secret(whole), "/v1/access/...");
        let pasted = "/v1/access?limit=1&prefix=seqd_0123456789abcdef_secret&after=a";
        let expected = "/v1/access?limit=1&prefix=seqd_0123456789abcdef...";
        assert_eq!(without_secret(pasted), expected);
        let encoded = "/v1/access?prefix=seqd%5F0123456789abcde%66%5Fsecret";
        let expected = "/v1/access?prefix=seqd_0123456789abcdef...";
        assert_eq!(without_secret(encoded), expected);
        for target in [
            "/v1/access?prefix=seqd_0123456789abcdef",
            "/v1/sequences/seqd_orders_",
            "/v1/access/0123456789abcdef?dry_run=1",
            "/v1/access/0123456789abcdef",
            "/v1/tokens/1A2b3C4d5E6?a=b",
            "/v1/tokens?limit=1",
            "/v1/locks/a/break",
        ] {
            assert_eq!(without_secret(target), target);
        }
    }
}
