//! Lists: a page of items and the cursor to the next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Lenient;

/// One page of a list, ordered by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// What to pass as `cursor` for the next page; null at the end.
    pub next_cursor: Option<String>,
}

/// How many were deleted of what a query names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeletedPage {
    /// How many.
    pub deleted: u64,
    /// What to pass as `cursor` of the next request; null if nothing more is to be deleted.
    pub next_cursor: Option<String>,
}

requests! {
    /// Which part of a list is wanted.
    ListQuery {
        /// Only names that begin with this.
        prefix: String,
        /// Items on a page: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// `next_cursor` of the page before.
        cursor: String,
    }
}

impl ListQuery {
    /// Items on a page where nothing is asked.
    pub const DEFAULT_LIMIT: u32 = 100;
    /// The most items on a page.
    pub const MAX_LIMIT: u32 = 1000;
}
