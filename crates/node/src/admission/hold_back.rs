//! Delays refusals that a client causes itself.

use std::time::Duration;

use seqd_api::ErrorCode;
use seqd_guards::is_out;

use crate::connections::ClientConnection;

/// A client that repeats a refused request at once would cost a node as much as a served client.
const HELD_BACK: Duration = Duration::from_millis(100);

/// The codes of refusals that a client causes itself.
const OWN_DOING: [ErrorCode; 5] = [
    ErrorCode::Forbidden,
    ErrorCode::Overloaded,
    ErrorCode::RateLimited,
    ErrorCode::Unauthorized,
    ErrorCode::WorkersExhausted,
];

/// Delays a refusal with a code of [`OWN_DOING`] and, if `is_delayed` is set, any other refusal:
/// while the node is busy, and of an audited request. Meanwhile, the connection may be closed in
/// favour of others.
pub(crate) async fn hold_back(code: &str, is_delayed: bool, connection: Option<&ClientConnection>) {
    let is_own = OWN_DOING.iter().any(|own| own.as_str() == code);
    if (is_own || is_delayed) && !is_out!(RefusalsHeldBack) {
        let _pause = connection.map(ClientConnection::pause);
        tokio::time::sleep(HELD_BACK).await;
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_has_its_share_waits_for_its_refusals() {
        let begin = Instant::now();
        hold_back("no-quorum", false, None).await;
        assert_eq!(begin.elapsed(), Duration::ZERO, "no fault of the client");
        for (at, code) in (1..).zip(["overloaded", "rate-limited", "forbidden"]) {
            hold_back(code, false, None).await;
            let held = begin.elapsed();
            assert!(held >= at * HELD_BACK, "a refusal was answered at once");
        }
        hold_back("invalid-argument", true, None).await;
        assert!(begin.elapsed() >= 4 * HELD_BACK);
    }
}
