//! Pages of a list: limits, and the cursor that says where a page ended.
//!
//! A cursor is the last name of its page in hexadecimal: opaque to clients, stateless here.

use seqd_api::{ListQuery, Page};

#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    #[error("limit is 1 to {}, not {}", ListQuery::MAX_LIMIT, .0)]
    Limit(u32),
    #[error("cursor is not one that a page before has given")]
    Cursor,
}

/// Which page of a list is wanted.
pub(crate) struct Wanted {
    pub(crate) limit: usize,
    /// The name that the page before ended with.
    pub(crate) after: Option<String>,
}

impl Wanted {
    pub(crate) fn read(limit: Option<u32>, cursor: Option<&str>) -> Result<Wanted, PageError> {
        let limit = limit.unwrap_or(ListQuery::DEFAULT_LIMIT);
        if !(1..=ListQuery::MAX_LIMIT).contains(&limit) {
            return Err(PageError::Limit(limit));
        }
        Ok(Wanted {
            limit: limit as usize,
            after: cursor.map(name).transpose()?,
        })
    }

    /// Cuts the page out of all items, which are in order, and says how to go on.
    pub(crate) fn cut<T>(&self, items: impl Iterator<Item = (String, T)>) -> Page<T> {
        let after = self.after.as_deref();
        let mut kept = Vec::new();
        let mut last = None;
        let mut wanted = items.filter(|(name, _)| after.is_none_or(|after| name.as_str() > after));
        for (name, item) in wanted.by_ref().take(self.limit) {
            kept.push(item);
            last = Some(name);
        }
        let more = wanted.next().is_some();
        Page {
            items: kept,
            next_cursor: last.filter(|_| more).map(|name| behind(&name)),
        }
    }
}

/// The cursor behind `name`.
pub(crate) fn behind(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The name that a cursor stands for.
fn name(cursor: &str) -> Result<String, PageError> {
    if cursor.is_empty() || !cursor.is_ascii() || !cursor.len().is_multiple_of(2) {
        return Err(PageError::Cursor);
    }
    let byte = |at: usize| u8::from_str_radix(cursor.get(at..at + 2)?, 16).ok();
    let bytes = (0..cursor.len())
        .step_by(2)
        .map(byte)
        .collect::<Option<Vec<u8>>>();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or(PageError::Cursor)
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
        let first = Wanted::read(Some(2), None).unwrap().cut(all());
        assert_eq!(first.items, ["a", "b"]);
        let second = Wanted::read(Some(2), first.next_cursor.as_deref()).unwrap();
        let second = second.cut(all());
        assert_eq!((second.items, second.next_cursor), (vec!["c"], None));
    }

    #[test]
    fn foreign_cursors_and_limits_are_refused() {
        for cursor in ["zz", "abc", "ff"] {
            assert!(matches!(
                Wanted::read(None, Some(cursor)),
                Err(PageError::Cursor)
            ));
        }
        for limit in [0, 1001] {
            assert!(matches!(
                Wanted::read(Some(limit), None),
                Err(PageError::Limit(_))
            ));
        }
        assert_eq!(Wanted::read(None, None).unwrap().limit, 100);
    }
}
