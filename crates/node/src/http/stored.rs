//! A response that is stored and sent again: its status and content type on the first line, then
//! its body.

use axum::http::{HeaderValue, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use seqd_api::{ErrorCode, Problem, REPLAYED_HEADER};

use super::response::Response;

#[derive(Debug)]
pub(crate) struct Stored {
    status: StatusCode,
    kind: HeaderValue,
    body: Bytes,
}

impl Response {
    /// The complete response, for storage.
    pub(crate) async fn stored(self) -> Result<Stored, Problem> {
        let (status, kind, body) = self.into_parts();
        let body = body.collect().await;
        let body = body.map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))?;
        Ok(Stored {
            status,
            kind,
            body: body.to_bytes(),
        })
    }
}

impl Stored {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.body.len() + 64);
        bytes.extend_from_slice(self.status.as_str().as_bytes());
        bytes.push(b' ');
        bytes.extend_from_slice(self.kind.as_bytes());
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Reads a stored response; `None` if the bytes are not a stored response.
    pub(crate) fn read(kept: &[u8]) -> Option<Stored> {
        let end = kept.iter().position(|byte| *byte == b'\n')?;
        let (head, body) = (kept.get(..end)?, kept.get(end + 1..)?);
        let (status, kind) = std::str::from_utf8(head).ok()?.split_once(' ')?;
        Some(Stored {
            status: StatusCode::from_bytes(status.as_bytes()).ok()?,
            kind: HeaderValue::from_str(kind).ok()?,
            body: Bytes::copy_from_slice(body),
        })
    }

    pub(crate) fn answer(self) -> Response {
        Response::new(self.status, self.kind, self.body)
    }

    /// The stored response, with a header that marks the repetition.
    pub(crate) fn replayed(self) -> Response {
        self.answer().with_header(REPLAYED_HEADER, "true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_is_given_again_byte_for_byte() {
        let answers = [
            Response::text("7\n8\n"),
            Response::json(&[1, 2])
                .unwrap()
                .with_status(StatusCode::CREATED),
        ];
        for answer in answers {
            let stored = answer.stored().await.unwrap();
            let read = Stored::read(&stored.write()).unwrap();
            let parts = |stored: &Stored| (stored.status, stored.kind.clone(), stored.body.clone());
            assert_eq!(parts(&read), parts(&stored));
            let again = read.replayed().into_http();
            assert_eq!(again.headers()[REPLAYED_HEADER], "true");
        }
        for bytes in [&b""[..], b"200", b"200\n", b"x text/plain\n1"] {
            assert!(Stored::read(bytes).is_none(), "{bytes:?}");
        }
    }
}
