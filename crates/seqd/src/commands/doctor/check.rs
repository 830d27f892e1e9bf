//! The result of a check.

use std::cmp::Reverse;

use serde::Serialize;

/// The outcomes of a check, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Ok,
    /// The check could not be made, because the nodes that it compares do not answer.
    Skip,
    Warn,
    Fail,
}

impl Outcome {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skip => "skip",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// One check of the cluster.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Check {
    pub(super) check: &'static str,
    pub(super) result: Outcome,
    /// The finding.
    pub(super) detail: String,
    /// The reason why the check matters.
    pub(super) why: &'static str,
    /// The remedy; what to watch if the check is `ok`.
    pub(super) what_to_do: String,
}

/// A problem that a check found.
#[derive(Debug)]
pub(super) struct Finding {
    outcome: Outcome,
    detail: String,
    remedy: String,
}

pub(super) fn warn(detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding {
        outcome: Outcome::Warn,
        detail: detail.into(),
        remedy: remedy.into(),
    }
}

pub(super) fn fail(detail: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding {
        outcome: Outcome::Fail,
        ..warn(detail, remedy)
    }
}

/// A finding that fails if `fails`, and warns if only `warns`.
pub(super) fn either(
    (fails, warns): (bool, bool),
    detail: impl Into<String>,
    remedy: impl Into<String>,
) -> Option<Finding> {
    match (fails, warns) {
        (true, _) => Some(fail(detail, remedy)),
        (_, true) => Some(warn(detail, remedy)),
        _ => None,
    }
}

impl Check {
    /// The check with these findings; `ok` describes the state if there are none.
    pub(super) fn of(
        check: &'static str,
        why: &'static str,
        findings: impl IntoIterator<Item = Finding>,
        ok: impl Into<String>,
    ) -> Self {
        let mut findings: Vec<Finding> = findings.into_iter().collect();
        findings.sort_by_key(|finding| Reverse(finding.outcome));
        let Some(worst) = findings.first().map(|finding| finding.outcome) else {
            return Self {
                check,
                result: Outcome::Ok,
                detail: ok.into(),
                why,
                what_to_do: "nothing".to_owned(),
            };
        };
        let details: Vec<&str> = findings.iter().map(|it| it.detail.as_str()).collect();
        let mut remedies: Vec<&str> = Vec::new();
        for finding in &findings {
            if !remedies.contains(&finding.remedy.as_str()) {
                remedies.push(&finding.remedy);
            }
        }
        Self {
            check,
            result: worst,
            detail: details.join("; "),
            why,
            what_to_do: remedies.join("; "),
        }
    }

    /// Marks a check without findings as not made, if there is a reason.
    pub(super) fn unless(self, reason: Option<String>) -> Self {
        match reason {
            Some(reason) if self.result == Outcome::Ok => Self {
                result: Outcome::Skip,
                detail: format!("not checked: {reason}"),
                what_to_do: "see members, and run the command again".to_owned(),
                ..self
            },
            _ => self,
        }
    }
}
