//! The verdict of a run that fills disks, a pure function of the observations.

use std::collections::BTreeMap;
use std::time::Duration;

use seqd_tests::node_peaks::Peaks;

/// The time within which every node serves again after space is freed.
pub(super) const RECOVERY: Duration = Duration::from_secs(10);

/// The permitted responses to a request that needs space. A claim may end, and a key that lives for
/// a second may expire, before its completion arrives.
const EXPECTED: [&str; 4] = ["ok", "overloaded", "lease-lost", "not-found"];

/// The number of responses by code. `ok` is a success; without a response, the reason is the code.
pub(super) type Answers = BTreeMap<String, u64>;

/// The observations of one round.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// `true` if the disk is full before any limit, so that `overloaded` must occur.
    pub(super) is_disk_the_end: bool,
    /// Responses to the clients that fill.
    pub(super) filling: Answers,
    /// Responses to the concurrent requests for strict values, and for IDs.
    pub(super) values: Answers,
    pub(super) ids: Answers,
    pub(super) peaks: Vec<Peaks>,
    /// The time from the ballast's removal to a strict value at every node. `None` if it was not in
    /// time.
    pub(super) back_after: Option<Duration>,
}

/// Returns the reasons for which the round has failed. Empty if it has passed.
pub(super) fn reasons(seen: &Seen) -> Vec<String> {
    let mut reasons = Vec::new();
    for peak in &seen.peaks {
        if let Some(after) = peak.ended_after {
            reasons.push(format!("{} ended after {after:.0?}", peak.node));
        }
    }
    for (what, answers, expected) in [
        ("requests that fill", &seen.filling, &EXPECTED[..]),
        ("strict values", &seen.values, &EXPECTED[..2]),
        ("IDs", &seen.ids, &EXPECTED[..1]),
    ] {
        if answers.get("ok").is_none_or(|count| *count == 0) {
            reasons.push(format!("{what}: none was served"));
        }
        let others = answers
            .iter()
            .filter(|(code, _)| !expected.contains(&code.as_str()));
        let others: Vec<String> = others
            .map(|(code, count)| format!("{count} {code}"))
            .collect();
        if !others.is_empty() {
            reasons.push(format!("{what} answered with {}", others.join(", ")));
        }
    }
    if seen.is_disk_the_end && !seen.filling.contains_key("overloaded") {
        reasons.push("the disk never ended: no request was overloaded".to_owned());
    }
    if seen.back_after.is_none() {
        reasons.push(format!(
            "not every node gave a strict value {RECOVERY:?} after room was made"
        ));
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(codes: &[&str]) -> Answers {
        codes.iter().map(|code| ((*code).to_owned(), 7)).collect()
    }

    fn good() -> Seen {
        Seen {
            is_disk_the_end: true,
            filling: answers(&EXPECTED),
            values: answers(&["ok", "overloaded"]),
            ids: answers(&["ok"]),
            peaks: vec![Peaks {
                node: "n3".to_owned(),
                ..Peaks::default()
            }],
            back_after: Some(RECOVERY),
        }
    }

    #[track_caller]
    fn found(plant: impl FnOnce(&mut Seen), words: &str) {
        let mut seen = good();
        plant(&mut seen);
        let reasons = reasons(&seen);
        assert!(
            matches!(&reasons[..], [one] if one.contains(words)),
            "{reasons:?}"
        );
    }

    #[test]
    fn a_round_that_overloads_and_recovers_passes() {
        assert_eq!(reasons(&good()), Vec::<String>::new());
        let mut limited = good();
        limited.is_disk_the_end = false;
        limited.filling = answers(&["ok"]);
        assert_eq!(reasons(&limited), Vec::<String>::new());
    }

    #[test]
    fn each_planted_fault_is_the_only_reason() {
        let after = Duration::from_secs(26);
        found(
            |seen| seen.peaks[0].ended_after = Some(after),
            "n3 ended after 26s",
        );
        found(|seen| seen.filling = answers(&["ok"]), "never ended");
        found(|seen| seen.back_after = None, "10s after room was made");
        found(
            |seen| seen.ids = answers(&["ok", "overloaded"]),
            "IDs answered with 7 overloaded",
        );
        found(|seen| seen.ids = Answers::new(), "IDs: none was served");
        let unknown = &["ok", "overloaded", "outcome-unknown"];
        found(
            |seen| seen.filling = answers(unknown),
            "fill answered with 7 outcome-unknown",
        );
        found(
            |seen| seen.values = answers(&["ok", "no-quorum"]),
            "values answered with 7 no-quorum",
        );
    }
}
