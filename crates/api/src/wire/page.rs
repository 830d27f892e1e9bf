//! Lists: a page of items and the cursor of the next page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::number_text::Lenient;

/// One page of a list, ordered by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// The `cursor` of the next page. Null at the end.
    pub next_cursor: Option<String>,
}

/// A page of deleted items.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeletedPage {
    /// The number of deleted items.
    pub deleted: u64,
    /// The `cursor` of the next request. Null if nothing is left to delete.
    pub next_cursor: Option<String>,
}

requests! {
    /// A part of a list.
    ListQuery {
        /// Only names with this prefix.
        prefix: String,
        /// Items on a page: 1 to 1000, 100 by default.
        limit: u32 as "Lenient",
        /// The `next_cursor` of the previous page.
        cursor: String,
    }
}

impl ListQuery {
    /// Items on a page by default.
    pub const DEFAULT_LIMIT: u32 = 100;
    /// The most items on a page.
    pub const MAX_LIMIT: u32 = 1000;
}
