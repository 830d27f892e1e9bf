//! The header `Idempotency-Key`: the key, and a fingerprint of its request.

use axum::http::request::Parts;
use seqd_api::{ErrorCode, IDEMPOTENCY_KEY_HEADER, Media, Problem};
use seqd_state::MAX_KEY_BYTES;
use sha2::{Digest as _, Sha256};

/// An `Idempotency-Key` and a fingerprint of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestKey {
    pub(crate) key: String,
    /// SHA-256 of the parts of the request that determine the response, in hexadecimal digits.
    pub(crate) fingerprint: String,
}

impl RequestKey {
    /// The key of a request, if it has one, with the fingerprint of the request.
    pub(super) fn of(
        parts: &Parts,
        query: &[(String, String)],
        media: Media,
        body: &[u8],
    ) -> Result<Option<RequestKey>, Problem> {
        let mut given = parts.headers.get_all(IDEMPOTENCY_KEY_HEADER).iter();
        let Some(key) = given.next() else {
            return Ok(None);
        };
        let is_fit = |key: &str| (1..=MAX_KEY_BYTES).contains(&key.len());
        let key = key.to_str().ok().filter(|key| is_fit(key));
        let key = key.filter(|_| given.next().is_none()).ok_or_else(|| {
            let detail = format!(
                "one Idempotency-Key is given, of 1 to {MAX_KEY_BYTES} printable ASCII characters"
            );
            Problem::new(ErrorCode::InvalidArgument, detail)
        })?;
        let mut hash = Sha256::new();
        // Each part is hashed with its length, so that no part can be taken for the end of another.
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(parts.method.as_str().as_bytes());
        add(parts.uri.path().as_bytes());
        add(&[u8::from(media == Media::Text)]);
        for (key, value) in query {
            add(key.as_bytes());
            add(value.as_bytes());
        }
        add(body);
        let digest = hash.finalize();
        Ok(Some(RequestKey {
            key: key.to_owned(),
            fingerprint: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use axum::http;

    use super::*;

    /// Reads the key of a request whose query has at most two keys.
    fn read(request: http::request::Builder, body: &str) -> Result<Option<RequestKey>, Problem> {
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let query = parts.uri.query().unwrap_or_default().split('&');
        let query = query.filter_map(|pair| pair.split_once('='));
        let query: Vec<_> = query
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        RequestKey::of(&parts, &query, Media::Json, body.as_bytes())
    }

    fn post(uri: &str) -> http::request::Builder {
        http::Request::post(uri)
    }

    #[test]
    fn a_key_comes_with_the_fingerprint_of_all_that_the_answer_depends_on() {
        let key = |request: http::request::Builder, body: &str| {
            let request = request.header(IDEMPOTENCY_KEY_HEADER, "k");
            read(request, body).unwrap().unwrap()
        };
        let one = key(post("/next?count=5"), "{}");
        assert_eq!((one.key.as_str(), one.fingerprint.len()), ("k", 64));
        let later = post("/next?count=5").header("x-request-id", "2");
        assert_eq!(key(later, "{}"), one);
        for (request, body) in [
            (post("/next?count=6"), "{}"),
            (post("/nexu?count=5"), "{}"),
            (post("/next?count=5"), "{ }"),
            (post("/next?count=5&x="), "{}"),
            (http::Request::put("/next?count=5"), "{}"),
        ] {
            assert_ne!(key(request, body).fingerprint, one.fingerprint);
        }
        let (parts, ()) = post("/next?count=5")
            .header(IDEMPOTENCY_KEY_HEADER, "k")
            .body(())
            .unwrap()
            .into_parts();
        let query = [("count".to_owned(), "5".to_owned())];
        let text = RequestKey::of(&parts, &query, Media::Text, b"{}")
            .unwrap()
            .unwrap();
        assert_ne!(
            text.fingerprint, one.fingerprint,
            "another form of the answer"
        );
    }

    #[test]
    fn one_key_is_given_or_none() {
        assert_eq!(read(post("/x"), "").unwrap(), None);
        let long = "k".repeat(MAX_KEY_BYTES + 1);
        let twice = post("/x").header(IDEMPOTENCY_KEY_HEADER, "a");
        for request in [
            post("/x").header(IDEMPOTENCY_KEY_HEADER, ""),
            post("/x").header(IDEMPOTENCY_KEY_HEADER, long),
            post("/x").header(IDEMPOTENCY_KEY_HEADER, "\u{e9}"),
            twice.header(IDEMPOTENCY_KEY_HEADER, "a"),
        ] {
            let problem = read(request, "").unwrap_err();
            assert_eq!(&*problem.code, "invalid-argument");
        }
    }
}
