//! Pages of a list: limits, and the cursor, which is the place where a page ended.

use seqd_api::{ListQuery, Page, Plan};
use seqd_raft::Raft;
use seqd_state::{SequenceName, SequenceRecord};

use super::error::RequestError;

/// The requested page of a list.
pub(crate) struct PageRequest {
    pub(crate) limit: usize,
    /// The last name of the page before.
    pub(crate) after: Option<String>,
}

impl PageRequest {
    pub(crate) fn read(
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<PageRequest, RequestError> {
        let limit = limit.unwrap_or(ListQuery::DEFAULT_LIMIT);
        if !(1..=ListQuery::MAX_LIMIT).contains(&limit) {
            let detail = format!("limit is 1 to {}, not {limit}", ListQuery::MAX_LIMIT);
            return Err(RequestError::Invalid(detail));
        }
        Ok(PageRequest {
            limit: limit as usize,
            after: cursor.map(name).transpose()?,
        })
    }

    /// The results of `keep` for the records whose names begin with `asked` and with one of
    /// `permitted`, and the cursor after them. `read` returns the records after the cursor that
    /// begin with a prefix, each with its name.
    pub(crate) fn permitted<'a, R, T, I: IntoIterator<Item = (&'a str, R)>>(
        &self,
        (permitted, asked): (&'a [String], &'a str),
        read: impl Fn(&'a str) -> I,
        mut keep: impl FnMut(R) -> Option<T>,
    ) -> (Vec<T>, Option<String>) {
        let prefixes = permitted.iter().filter_map(|own| narrower(own, asked));
        let records = prefixes.flat_map(read);
        let (found, last) = collect(records, self.limit, |_, record| keep(record));
        (found, last.map(behind))
    }

    /// Selects the page from all items, which are in order.
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

/// The most records that one request scans. A scan takes a few milliseconds, during which `apply`
/// waits.
const MOST_LOOKED_AT: usize = 10_000;

/// The number of records that [`each_sequence`] scans before `apply` may run.
const SCANNED_TOGETHER: usize = 1000;

/// Collects the results of `keep` from ordered records, until there are `limit` results or
/// [`MOST_LOOKED_AT`] records were scanned. Returns the key of the last scanned record if more
/// records follow.
pub(crate) fn collect<K, R, T>(
    records: impl Iterator<Item = (K, R)>,
    limit: usize,
    mut keep: impl FnMut(&K, R) -> Option<T>,
) -> (Vec<T>, Option<K>) {
    let mut kept = Vec::new();
    let mut records = records.take(MOST_LOOKED_AT + 1).enumerate().peekable();
    while let Some((index, (key, record))) = records.next() {
        kept.extend(keep(&key, record));
        let is_full = kept.len() >= limit || index + 1 == MOST_LOOKED_AT;
        if is_full && records.peek().is_some() {
            return (kept, Some(key));
        }
    }
    (kept, None)
}

/// Passes all sequences, without the deleted ones, to `visit` by name. `apply` may run in between,
/// so that no entry waits for the whole scan.
pub(crate) fn each_sequence(raft: &Raft, mut visit: impl FnMut(&SequenceName, &SequenceRecord)) {
    let (mut after, mut is_last) = (None, false);
    while !is_last {
        raft.state(|state| {
            let (mut count, mut last) = (0, None);
            for (name, record) in state.sequences("", after.as_ref()).take(SCANNED_TOGETHER) {
                (count, last) = (count + 1, Some(name));
                if !record.deleted {
                    visit(name, record);
                }
            }
            let last = last.cloned();
            (after, is_last) = (last, count < SCANNED_TOGETHER);
        });
    }
}

/// A deletion of the first `limit` of the found objects, for its plan.
pub(crate) struct PageDeletion {
    /// For each found object, whether it is unfinished or unused.
    pub(crate) found: Vec<bool>,
    pub(crate) limit: usize,
    /// True if the scan ended before the last object.
    pub(crate) is_cut: bool,
}

impl PageDeletion {
    /// The plan: the number of objects, each of which is a `noun`, and the number of `open` ones.
    pub(crate) fn plan(&self, noun: &str, open: &str, consequence: &str) -> Plan {
        let (page, rest) = self.found.split_at(self.limit.min(self.found.len()));
        let count_open = |found: &[bool]| found.iter().filter(|is_open| **is_open).count();
        let remaining = match (rest.len(), self.is_cut) {
            (0, false) => String::new(),
            (0, true) => ", and more may remain".to_owned(),
            (more, is_cut) => {
                let at_least = if is_cut { "at least " } else { "" };
                let open_count = count_open(rest);
                format!(", and {at_least}{more} more remain, {open_count} of them {open}")
            }
        };
        let (count, open_count) = (page.len(), count_open(page));
        let plural = if count == 1 { "" } else { "s" };
        let effect = format!(
            "deletes {count} {noun}{plural}, {open_count} of them {open}{remaining}: {consequence}"
        );
        Plan {
            more: !remaining.is_empty(),
            ..Plan::new(effect, None)
        }
    }
}

/// The longer of two prefixes, if it begins with the other: the prefix of all names that begin with
/// both.
fn narrower<'a>(one: &'a str, other: &'a str) -> Option<&'a str> {
    if one.starts_with(other) {
        return Some(one);
    }
    other.starts_with(one).then_some(other)
}

/// The cursor of the page after `name`.
pub(crate) fn behind(name: &str) -> String {
    name.bytes().map(|byte| format!("{byte:02x}")).collect()
}

/// The name in a cursor.
fn name(cursor: &str) -> Result<String, RequestError> {
    let byte = |at: usize| u8::from_str_radix(cursor.get(at..at + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..cursor.len()).step_by(2).map(byte).collect();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.filter(|text| !text.is_empty());
    text.ok_or_else(|| RequestError::invalid("cursor does not come from an earlier page"))
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
        let first = PageRequest::read(Some(2), None).unwrap().cut(all());
        assert_eq!(first.items, ["a", "b"]);
        let second = PageRequest::read(Some(2), first.next_cursor.as_deref()).unwrap();
        let second = second.cut(all());
        assert_eq!((second.items, second.next_cursor), (vec!["c"], None));
    }

    #[test]
    fn a_request_reads_a_bounded_number_of_records_and_returns_a_cursor() {
        let even = |number: &usize, _: ()| number.is_multiple_of(2).then_some(*number);
        let records = |count| (0..count).map(|number| (number, ()));
        assert_eq!(collect(records(5), 2, even), (vec![0, 2], Some(2)));
        assert_eq!(collect(records(5), 4, even), (vec![0, 2, 4], None));
        let (none, at) = collect(records(MOST_LOOKED_AT + 1), 1, |_, ()| None::<()>);
        assert_eq!((none, at), (Vec::new(), Some(MOST_LOOKED_AT - 1)));
    }

    #[test]
    fn the_plan_of_a_deletion_describes_one_page_and_what_remains() {
        for (limit, is_cut, words) in [
            (3, false, "3 keys, 2 of them open"),
            (3, true, "3 keys, 2 of them open, and more may remain"),
            (
                2,
                false,
                "2 keys, 1 of them open, and 1 more remain, 1 of them open",
            ),
            (
                1,
                true,
                "1 key, 1 of them open, and at least 2 more remain, 1 of them open",
            ),
        ] {
            let found = vec![true, false, true];
            let page = PageDeletion {
                found,
                limit,
                is_cut,
            };
            let plan = page.plan("key", "open", "they end");
            assert_eq!(plan.effect, format!("deletes {words}: they end"));
            assert_eq!(plan.more, words.contains("remain"));
        }
    }

    #[test]
    fn foreign_cursors_and_limits_are_refused() {
        let refusal = |limit, cursor| PageRequest::read(limit, cursor).err().unwrap().to_string();
        for cursor in ["zz", "abc", "ff", "", "\u{e4}"] {
            assert!(refusal(None, Some(cursor)).starts_with("cursor"));
        }
        for limit in [0, 1001] {
            assert!(refusal(Some(limit), None).starts_with("limit is 1 to 1000"));
        }
        assert_eq!(PageRequest::read(None, None).unwrap().limit, 100);
    }
}
