//! Path templates and the parameters that clients fill in.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The characters that a parameter may contain unescaped: the unreserved characters of RFC 3986,
/// and the colon, which names may contain.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// Returns the template with its first parameter replaced by `value`, percent-encoded.
#[must_use]
pub fn fill(template: &str, value: &str) -> String {
    let (Some(open), Some(close)) = (template.find('{'), template.find('}')) else {
        return template.to_owned();
    };
    let (before, after) = (&template[..open], &template[close + 1..]);
    format!("{before}{}{after}", utf8_percent_encode(value, KEPT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_filled_and_escaped() {
        assert_eq!(
            fill("/v1/sequences/{name}/next", "eu.order:1"),
            "/v1/sequences/eu.order:1/next"
        );
        assert_eq!(
            fill("/v1/sequences/{name}", "a/b ü"),
            "/v1/sequences/a%2Fb%20%C3%BC"
        );
        assert_eq!(fill("/v1/cluster", "x"), "/v1/cluster");
    }
}
