//! What a token permits, and what a request needs: `read`, `allocate` or `admin`, each perhaps for
//! the names that begin with a prefix alone.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The most bytes of a prefix.
pub const MAX_PREFIX_BYTES: usize = 255;

/// What a permission looks like.
pub const PERMISSION_RULE: &str =
    "read, allocate or admin, or one of them with a prefix of names: allocate:order.";

/// What may be done. Each includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// See what is there.
    Read,
    /// Take IDs, UUIDs and values.
    Allocate,
    /// Change what is there: sequences, and without a prefix members, leader and tokens too.
    Admin,
}

impl Scope {
    /// All of them, the least first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Allocate, Self::Admin];

    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Allocate => "allocate",
            Self::Admin => "admin",
        }
    }
}

/// A scope for the names that begin with a prefix; without one, for all names and the cluster
/// itself. As text: `read`, `allocate:order.`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Permission {
    /// What may be done.
    pub scope: Scope,
    /// At most 255 printable ASCII characters; empty for everything.
    pub prefix: String,
}

/// Not a permission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no permission: it is {PERMISSION_RULE} (at most {MAX_PREFIX_BYTES} printable ASCII \
     characters)"
)]
pub struct PermissionError(String);

impl FromStr for Permission {
    type Err = PermissionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (word, prefix) = match text.split_once(':') {
            Some((word, prefix)) => (word, Some(prefix)),
            None => (text, None),
        };
        let scope = Scope::ALL.into_iter().find(|scope| scope.as_str() == word);
        // "allocate:" would be everything, and looks as if something were missing.
        let is_fit = prefix.is_none_or(|prefix| {
            (1..=MAX_PREFIX_BYTES).contains(&prefix.len())
                && prefix.bytes().all(|byte| byte.is_ascii_graphic())
        });
        match scope {
            Some(scope) if is_fit => Ok(Self {
                scope,
                prefix: prefix.unwrap_or_default().to_owned(),
            }),
            _ => Err(PermissionError(text.chars().take(80).collect())),
        }
    }
}

impl JsonSchema for Permission {
    fn schema_name() -> Cow<'static, str> {
        "Permission".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let pattern = format!("^(read|allocate|admin)(:[!-~]{{1,{MAX_PREFIX_BYTES}}})?$");
        json_schema!({ "type": "string", "pattern": pattern })
    }
}

impl TryFrom<String> for Permission {
    type Error = PermissionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Permission> for String {
    fn from(permission: Permission) -> Self {
        permission.to_string()
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.scope.as_str())?;
        if self.prefix.is_empty() {
            return Ok(());
        }
        write!(out, ":{}", self.prefix)
    }
}

/// What a request needs of the token that it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// No token: what balances load has none.
    Nothing,
    /// Any token: what is answered is the same in every cluster, or computed.
    AnyToken,
    /// This scope, whatever its prefix: what is taken has no name, or the answer shows the
    /// permitted names alone.
    Anywhere(Scope),
    /// This scope for the name in the path.
    Named(Scope),
    /// This scope without a prefix: it is about the cluster.
    Whole(Scope),
}

impl Need {
    /// Whether these permissions, scopes with prefixes, are enough for a request about `name`.
    #[must_use]
    pub fn is_met<'a>(
        self,
        mut permissions: impl Iterator<Item = (Scope, &'a str)>,
        name: &str,
    ) -> bool {
        match self {
            Self::Nothing | Self::AnyToken => true,
            Self::Anywhere(wanted) => permissions.any(|(scope, _)| scope >= wanted),
            Self::Named(wanted) => {
                permissions.any(|(scope, prefix)| scope >= wanted && name.starts_with(prefix))
            }
            Self::Whole(wanted) => {
                permissions.any(|(scope, prefix)| scope >= wanted && prefix.is_empty())
            }
        }
    }

    /// The permission that is missing where this need is not met, for a request about `name`.
    #[must_use]
    pub fn missing(self, name: &str) -> String {
        match self {
            Self::Nothing | Self::AnyToken => "a token".to_owned(),
            Self::Anywhere(scope) => scope.as_str().to_owned(),
            Self::Named(scope) => format!("{} for {name}", scope.as_str()),
            Self::Whole(scope) => format!("{} without a prefix", scope.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(text: &str) -> Permission {
        text.parse().unwrap()
    }

    #[test]
    fn a_permission_is_a_scope_and_perhaps_a_prefix() {
        let long = format!("read:{}", "x".repeat(MAX_PREFIX_BYTES));
        for text in [
            "read",
            "allocate",
            "admin",
            "allocate:order/",
            "read:a:b",
            &long,
        ] {
            assert_eq!(permission(text).to_string(), text);
        }
        let longer = format!("{long}x");
        for text in [
            "", "write", "Read", "read:", ":a", "read:a b", "read:é", "read ", &longer,
        ] {
            let error = text.parse::<Permission>().unwrap_err().to_string();
            assert!(error.contains("allocate:order."), "{error}");
        }
    }

    #[test]
    fn a_scope_includes_the_lesser_ones_and_a_prefix_is_no_more_than_its_names() {
        let order = [(Scope::Allocate, "order.")];
        let met = |need: Need, name: &str| need.is_met(order.into_iter(), name);
        assert!(met(Need::Named(Scope::Allocate), "order.eu"));
        assert!(met(Need::Named(Scope::Read), "order.eu"));
        assert!(!met(Need::Named(Scope::Admin), "order.eu"));
        assert!(!met(Need::Named(Scope::Read), "order"));
        assert!(!met(Need::Named(Scope::Read), "invoice.order."));
        assert!(met(Need::Anywhere(Scope::Allocate), ""));
        assert!(!met(Need::Anywhere(Scope::Admin), ""));
        assert!(!met(Need::Whole(Scope::Read), ""));
        assert!(met(Need::AnyToken, ""));
        let both = [(Scope::Read, ""), (Scope::Admin, "test.")];
        let met = |need: Need, name: &str| need.is_met(both.into_iter(), name);
        assert!(met(Need::Whole(Scope::Read), ""));
        assert!(!met(Need::Whole(Scope::Allocate), ""));
        assert!(!met(Need::Named(Scope::Allocate), "order"));
        assert!(met(Need::Named(Scope::Allocate), "test.order"));
    }
}
