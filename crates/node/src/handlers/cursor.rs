//! Pages of a list: limits, and the cursor that says where a page ended.
//!
//! A cursor is the last name of its page in hexadecimal: opaque to clients, stateless here.

use seqd_api::{ListQuery, Problem};

use super::invalid;

/// The page's length.
pub(super) fn limit(limit: Option<u32>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(ListQuery::DEFAULT_LIMIT);
    if (1..=ListQuery::MAX_LIMIT).contains(&limit) {
        return Ok(limit as usize);
    }
    Err(invalid(format!(
        "limit is 1 to {}, not {limit}",
        ListQuery::MAX_LIMIT
    )))
}

/// The cursor behind `name`.
pub(super) fn behind(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The name that a cursor stands for.
pub(super) fn name(cursor: Option<&str>) -> Result<Option<String>, Problem> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let wrong = || invalid("cursor is not one that a page before has given");
    if cursor.is_empty() || !cursor.is_ascii() || !cursor.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let byte = |at: usize| u8::from_str_radix(cursor.get(at..at + 2)?, 16).ok();
    let bytes = (0..cursor.len())
        .step_by(2)
        .map(byte)
        .collect::<Option<Vec<u8>>>();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map(Some).ok_or_else(wrong)
}

/// Cuts one page out of all items, which are in order, and says how to go on.
pub(super) fn page<T>(
    items: impl Iterator<Item = (String, T)>,
    after: Option<&str>,
    limit: usize,
) -> seqd_api::Page<T> {
    let mut kept = Vec::new();
    let mut last = None;
    let mut behind_cursor =
        items.filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
    for (name, item) in behind_cursor.by_ref().take(limit) {
        kept.push(item);
        last = Some(name);
    }
    let more = behind_cursor.next().is_some();
    let next_cursor = last.filter(|_| more).map(|name| behind(&name));
    seqd_api::Page {
        items: kept,
        next_cursor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_to_the_end() {
        let all = || {
            ["a", "b", "c"]
                .into_iter()
                .map(|name| (name.to_owned(), name))
        };
        let first = page(all(), None, 2);
        assert_eq!(first.items, ["a", "b"]);
        let after = name(first.next_cursor.as_deref()).unwrap();
        let second = page(all(), after.as_deref(), 2);
        assert_eq!((second.items, second.next_cursor), (vec!["c"], None));
    }

    #[test]
    fn foreign_cursors_and_limits_are_refused() {
        assert!(name(Some("zz")).is_err());
        assert!(name(Some("abc")).is_err());
        assert!(name(Some("ff")).is_err());
        assert!(limit(Some(0)).is_err());
        assert!(limit(Some(1001)).is_err());
        assert_eq!(limit(None).unwrap(), 100);
    }
}
