//! The permissions of a token and the requirements of a request: `read`, `allocate` or `admin`,
//! each optionally limited to the names with a prefix.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// The longest prefix, in bytes.
pub const MAX_PREFIX_BYTES: usize = 255;

/// The description of a valid permission, for messages.
pub const PERMISSION_RULE: &str =
    "read, allocate or admin, or one of them with a prefix of names: allocate:order.";

/// The permitted actions. Each scope includes the previous ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read.
    Read,
    /// Take IDs, UUIDs and values.
    Allocate,
    /// Change sequences and, without a prefix, also members, the leader and tokens.
    Admin,
}

impl Scope {
    /// All scopes, the weakest first.
    pub const ALL: [Self; 3] = [Self::Read, Self::Allocate, Self::Admin];

    /// The name of the scope.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Allocate => "allocate",
            Self::Admin => "admin",
        }
    }
}

/// A scope for the names that begin with a prefix. Without a prefix, it applies to all names and to
/// the cluster itself. Its text form is `read` or `allocate:order.`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Permission {
    /// The permitted actions.
    pub scope: Scope,
    /// At most 255 printable ASCII characters. Empty for all names.
    pub prefix: String,
}

/// The text is not a permission.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a permission: a permission is {PERMISSION_RULE} (at most {MAX_PREFIX_BYTES} \
     printable ASCII characters)"
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
        // "allocate:" would permit all names, although its prefix appears to be missing.
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

/// The permission that a request requires of its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// No token: load balancers and monitors have none.
    Nothing,
    /// Any token: the response is computed, or the same for every caller.
    AnyToken,
    /// This scope with any prefix: the taken resource has no name, or the response contains only
    /// permitted names.
    Anywhere(Scope),
    /// This scope for the name in the path.
    Named(Scope),
    /// This scope without a prefix: the request concerns the cluster.
    Whole(Scope),
}

impl Need {
    /// Returns whether these permissions (scopes with prefixes) suffice for a request about `name`.
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

    /// Returns the permission that is missing for a request about `name`.
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
