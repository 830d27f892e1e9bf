//! Entity tags of resources with a definition, which has a revision, and a state that changes:
//! `"REVISION-STATE"`.
//!
//! `If-None-Match` compares the whole tag, which changes with either part. `If-Match` compares only
//! the revision, so that a conditional change succeeds although the sequence has issued values
//! meanwhile.

use axum::http::HeaderMap;
use axum::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use seqd_api::{ErrorCode, Problem};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ETag {
    pub(crate) revision: u64,
    /// Differs between any two states of the same definition.
    pub(crate) state: u64,
}

impl std::fmt::Display for ETag {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "\"{}-{}\"", self.revision, self.state)
    }
}

/// The tags of a header; `None` if the header is missing.
fn tags(headers: &HeaderMap, name: HeaderName) -> Option<Vec<&str>> {
    let values = headers.get_all(name).iter();
    let texts = values.map(|value| value.to_str().unwrap_or_default());
    let tags: Vec<&str> = texts
        .flat_map(|text| text.split(','))
        .map(str::trim)
        .collect();
    (!tags.is_empty()).then_some(tags)
}

impl ETag {
    /// Returns whether the caller already has this state.
    pub(crate) fn is_known(self, headers: &HeaderMap) -> bool {
        is_known(headers, &self.to_string())
    }
}

/// Returns whether `If-None-Match` contains this tag.
pub(crate) fn is_known(headers: &HeaderMap, own: &str) -> bool {
    let is_own = |tag: &&str| *tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == own;
    tags(headers, IF_NONE_MATCH).is_some_and(|tags| tags.iter().any(is_own))
}

/// Returns whether the request may only create a resource (`If-None-Match: *`).
pub(crate) fn only_new(headers: &HeaderMap) -> Result<bool, Problem> {
    match tags(headers, IF_NONE_MATCH).as_deref() {
        None => Ok(false),
        Some(["*"]) => Ok(true),
        Some(_) => Err(Problem::new(
            ErrorCode::InvalidArgument,
            "If-None-Match of a PUT must be *",
        )),
    }
}

/// The revision in the caller's `If-Match`; `None` if the header is missing or `*`.
pub(crate) fn if_match(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let tag = match tags(headers, IF_MATCH).as_deref() {
        None | Some(["*"]) => return Ok(None),
        Some([tag]) => (*tag).to_owned(),
        Some(_) => {
            let detail = "If-Match takes one tag, or *";
            return Err(Problem::new(ErrorCode::InvalidArgument, detail));
        }
    };
    let bare = tag
        .strip_prefix('"')
        .and_then(|tag| tag.strip_suffix('"'))
        .unwrap_or(&tag);
    let revision = bare.split_once('-').map_or(bare, |(revision, _)| revision);
    revision.parse().map(Some).map_err(|_| {
        let tag: String = tag.chars().take(80).collect();
        let detail = format!("{tag:?} is not a revision of this sequence");
        Problem::new(ErrorCode::PreconditionFailed, detail)
            .with_hint("If-Match takes the ETag of a GET")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAG: ETag = ETag {
        revision: 3,
        state: 57,
    };

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        let values = values
            .iter()
            .map(|value| (name.clone(), value.parse().unwrap()));
        values.collect()
    }

    #[test]
    fn a_state_is_known_by_its_whole_tag() {
        let is_known = |values: &[&str]| TAG.is_known(&headers(IF_NONE_MATCH, values));
        for values in [
            &["\"3-57\""][..],
            &["\"1-2\", W/\"3-57\""],
            &["\"1-2\"", "*"],
        ] {
            assert!(is_known(values), "{values:?}");
        }
        for values in [&[][..], &["\"3\""], &["\"3-58\""], &["\"4-57\""], &["3-57"]] {
            assert!(!is_known(values), "{values:?}");
        }
    }

    #[test]
    fn a_change_is_conditional_on_the_revision() {
        let named = |values: &[&str]| {
            let named = if_match(&headers(IF_MATCH, values));
            named.map_err(|problem| problem.status)
        };
        assert_eq!(named(&[]), Ok(None));
        assert_eq!(named(&["*"]), Ok(None));
        for tag in [TAG.to_string().as_str(), "\"3\"", "3"] {
            assert_eq!(named(&[tag]), Ok(Some(3)));
        }
        assert_eq!(named(&["\"none\""]), Err(412));
        assert_eq!(named(&["\"1\", \"2\""]), Err(400));
    }
}
