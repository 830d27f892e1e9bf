//! Lists and deletions that span several pages.

use seqd_client::Error;
use seqd_client::api::{
    DeletedPage, KeysQuery, ListQuery, LocksQuery, Page, Plan, SequencesQuery, TokensQuery,
    WorkersQuery, exit,
};

use crate::failure::Failure;
use crate::format::Format;
use crate::output::Report;
use crate::session::Session;

/// A query for one page.
pub(super) trait Paged {
    /// The cursor of the page. `None` for the first page.
    fn cursor(&mut self) -> &mut Option<String>;

    /// Continues with the next page. Returns whether there is one. A cursor that leads to the same page
    /// is refused, because the list would have no end.
    fn turn(&mut self, next: Option<String>) -> Result<bool, Failure> {
        if next.is_some() && *self.cursor() == next {
            let detail = "the cursor of the next page is that of the same page";
            return Err(Failure::of(exit::FAILURE, "bad-answer", detail));
        }
        let has_more = next.is_some();
        *self.cursor() = next;
        Ok(has_more)
    }
}

macro_rules! paged {
    ($($Query:ty),+) => {$(
        impl Paged for $Query {
            fn cursor(&mut self) -> &mut Option<String> {
                &mut self.cursor
            }
        }
    )+};
}

paged!(
    KeysQuery,
    ListQuery,
    LocksQuery,
    SequencesQuery,
    TokensQuery,
    WorkersQuery
);

/// The items of a list. If `is_cut` is set, there may be more.
pub(super) struct Listed<T> {
    pub(super) items: Vec<T>,
    pub(super) is_cut: bool,
}

/// Collects at most `limit` items. `page` is called with the query of each page.
pub(super) async fn up_to<Q: Paged, T>(
    limit: u64,
    mut query: Q,
    mut page: impl AsyncFnMut(&Q) -> Result<Page<T>, Error>,
) -> Result<Listed<T>, Failure> {
    let mut items = Vec::new();
    let has_more = loop {
        let next = page(&query).await?;
        items.extend(next.items);
        let has_more = query.turn(next.next_cursor)?;
        if !has_more || items.len() as u64 >= limit {
            break has_more;
        }
    };
    let is_cut = has_more || items.len() as u64 > limit;
    items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Listed { items, is_cut })
}

/// Collects all items.
pub(super) async fn all<Q: Paged, T>(
    query: Q,
    page: impl AsyncFnMut(&Q) -> Result<Page<T>, Error>,
) -> Result<Vec<T>, Failure> {
    Ok(up_to(u64::MAX, query, page).await?.items)
}

/// Prints a note if the list was cut.
pub(super) fn note_cut(is_cut: bool, limit: u64, session: &Session) {
    if is_cut {
        session.note(&format!("the first {limit}; there may be more: --limit"));
    }
}

/// Prints a created object for programs. For people, the note on stderr suffices, and stdout stays
/// free for the values of the next command.
pub(super) fn print_created(created: &Report, session: &Session) -> Result<u8, Failure> {
    if session.format.is_json() || session.format == Format::Csv {
        created.print(session.format)?;
    }
    Ok(exit::OK)
}

/// The plan of a command that deletes one page after another, from the plan of the first page.
pub(super) fn plan_of_all(mut plan: Plan) -> Plan {
    if plan.more {
        plan.effect += "; this command deletes one page after another until none remain";
        plan.more = false;
    }
    plan
}

/// Deletes one page after another and prints the number of deleted items, even if a later page
/// fails.
pub(super) async fn delete<Q: Paged>(
    what: &str,
    session: &Session,
    query: Q,
    page: impl AsyncFnMut(&Q) -> Result<DeletedPage, Error>,
) -> Result<u8, Failure> {
    let (deleted, ended) = delete_pages(query, page).await;
    if let Err(error) = ended {
        if deleted > 0 {
            session.note(&format!("deleted {deleted} {what} before the error"));
        }
        return Err(error);
    }
    session.note(&format!("deleted {deleted} {what}"));
    if session.format.is_json() {
        let next_cursor = None;
        let all = DeletedPage {
            deleted,
            next_cursor,
        };
        Report::new(&all)?.print(session.format)?;
    }
    Ok(exit::OK)
}

/// Deletes one page after another until a page fails. Returns the number of deleted items, and the
/// error.
async fn delete_pages<Q: Paged>(
    mut query: Q,
    mut page: impl AsyncFnMut(&Q) -> Result<DeletedPage, Error>,
) -> (u64, Result<(), Failure>) {
    let mut deleted = 0;
    loop {
        let next = match page(&query).await {
            Ok(next) => next,
            Err(error) => return (deleted, Err(error.into())),
        };
        deleted += next.deleted;
        match query.turn(next.next_cursor) {
            Ok(true) => {}
            Ok(false) => return (deleted, Ok(())),
            Err(failure) => return (deleted, Err(failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(deleted: u64, is_last: bool) -> DeletedPage {
        DeletedPage {
            deleted,
            next_cursor: (!is_last).then(|| format!("after {deleted}")),
        }
    }

    #[test]
    fn the_plan_of_all_pages_announces_them() {
        let mut page = Plan::new("deletes 2 keys, and 1 more remain".to_owned(), None);
        assert_eq!(plan_of_all(page.clone()), page);
        page.more = true;
        let all = plan_of_all(page);
        assert!(
            all.effect.ends_with("until none remain") && !all.more,
            "{all:?}"
        );
    }

    #[tokio::test]
    async fn a_deletion_that_fails_on_a_later_page_counts_the_pages_before() {
        let failed = || Err(Error::Setup("no answer".to_owned()));
        let mut pages = vec![failed(), Ok(page(2, false)), Ok(page(3, false))];
        let query = KeysQuery::default();
        let (deleted, ended) = delete_pages(query, async |_| pages.pop().unwrap()).await;
        assert_eq!(deleted, 5);
        assert!(ended.is_err());
        let mut pages = vec![failed(), Ok(page(2, true)), Ok(page(3, false))];
        let query = KeysQuery::default();
        let (deleted, ended) = delete_pages(query, async |_| pages.pop().unwrap()).await;
        assert_eq!(deleted, 5);
        assert!(ended.is_ok());
    }

    #[tokio::test]
    async fn a_cursor_of_the_same_page_ends_a_deletion_and_a_list() {
        let query = KeysQuery::default();
        let same = || Ok::<_, Error>(page(2, false));
        let (deleted, ended) = delete_pages(query, async |_| same()).await;
        assert_eq!(deleted, 4);
        assert_eq!(ended.unwrap_err().code(), "bad-answer");
        let same = || {
            let next_cursor = Some("next".to_owned());
            let items = vec![7];
            Ok::<_, Error>(Page { items, next_cursor })
        };
        let query = KeysQuery::default();
        let listed = all(query, async |_| same()).await;
        assert_eq!(listed.unwrap_err().code(), "bad-answer");
    }
}
