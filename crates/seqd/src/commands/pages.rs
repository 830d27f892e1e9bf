//! Lists and deletions that go on from page to page.

use seqd_client::Error;
use seqd_client::api::{DeletedPage, Page, Plan, exit};

use crate::failure::Failure;
use crate::output::Report;
use crate::session::Session;

/// Items of a list, and whether it may have more of them.
pub(super) struct Listed<T> {
    pub(super) items: Vec<T>,
    pub(super) is_cut: bool,
}

/// Collects at most so many items; `page` is called with the cursor of each page.
pub(super) async fn up_to<T>(
    limit: u64,
    mut page: impl AsyncFnMut(Option<String>) -> Result<Page<T>, Error>,
) -> Result<Listed<T>, Failure> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let next = page(cursor).await?;
        items.extend(next.items);
        cursor = next.next_cursor;
        if cursor.is_none() || items.len() as u64 >= limit {
            break;
        }
    }
    let is_cut = cursor.is_some() || items.len() as u64 > limit;
    items.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(Listed { items, is_cut })
}

/// Collects all items.
pub(super) async fn all<T>(
    page: impl AsyncFnMut(Option<String>) -> Result<Page<T>, Error>,
) -> Result<Vec<T>, Failure> {
    Ok(up_to(u64::MAX, page).await?.items)
}

/// Says that a list was cut.
pub(super) fn note_cut(is_cut: bool, limit: u64, session: &Session) {
    if is_cut {
        session.note(&format!("the first {limit}; there may be more: --limit"));
    }
}

/// What a plan leads to: the exit code where it is only shown or not agreed to.
pub(super) fn agreed(plan: &Plan, session: &Session) -> Result<Option<u8>, Failure> {
    if session.is_dry_run {
        return session.print_plan(plan).map(Some);
    }
    let is_agreed = session.may_go_on(&plan.effect)?;
    Ok((!is_agreed).then_some(exit::OK))
}

/// Deletes page after page, and says how many there were.
pub(super) async fn delete(
    what: &str,
    session: &Session,
    mut page: impl AsyncFnMut(Option<String>) -> Result<DeletedPage, Error>,
) -> Result<u8, Failure> {
    let (mut deleted, mut cursor) = (0, None);
    loop {
        let next = page(cursor).await?;
        deleted += next.deleted;
        cursor = next.next_cursor;
        if cursor.is_none() {
            break;
        }
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
