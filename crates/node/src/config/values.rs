//! Values as given: texts with their origins, before the rules of their keys apply.

use std::collections::BTreeMap;

/// The source of a value, weakest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// From the table of keys.
    Default,
    /// Computed from other keys.
    Derived,
    File(String),
    Variable(String),
    Flag(String),
}

impl Origin {
    /// Returns whether both origins are of one layer, so that neither overrides the other.
    pub(super) fn is_beside(&self, other: &Origin) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => write!(out, "default"),
            Origin::Derived => write!(out, "derived"),
            Origin::File(path) => write!(out, "{path}"),
            Origin::Variable(name) => write!(out, "{name}"),
            Origin::Flag(name) => write!(out, "--{name}"),
        }
    }
}

/// A value as text, before its rule is applied. A list is comma-separated.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) origin: Origin,
    pub(super) text: String,
}

impl Given {
    pub(super) fn items(&self) -> impl Iterator<Item = &str> {
        let items = self.text.split(',').map(str::trim);
        items.filter(|item| !item.is_empty())
    }
}

/// A value that passed the rule of its key, or a sentence that describes the permitted values.
pub(super) type Checked<T> = Result<T, String>;

/// The value from the strongest origin, for each key that has one.
#[derive(Clone, Debug, Default)]
pub(super) struct Values(BTreeMap<&'static str, Given>);

impl Values {
    pub(super) fn get(&self, key: &str) -> Option<&Given> {
        self.0.get(key)
    }

    /// Sets a key, unless a stronger origin has set it.
    pub(super) fn set(&mut self, key: &'static str, origin: Origin, text: String) {
        let present = self.get(key);
        if present.is_none_or(|present| present.origin <= origin) {
            self.0.insert(key, Given { origin, text });
        }
    }

    /// Parses the value in force by its rule.
    pub(super) fn read<T>(
        &self,
        key: &'static str,
        rule: impl FnOnce(&Given) -> Checked<T>,
    ) -> Result<T, ConfigError> {
        let nothing = Given {
            origin: Origin::Default,
            text: String::new(),
        };
        rule(self.get(key).unwrap_or(&nothing)).map_err(|allowed| self.refusal(key, &allowed))
    }

    pub(super) fn refusal(&self, key: &'static str, allowed: &str) -> ConfigError {
        let (text, origin) = match self.get(key) {
            Some(given) => (given.text.as_str(), given.origin.to_string()),
            None => ("", Origin::Default.to_string()),
        };
        ConfigError::value(key, text, &origin, allowed)
    }
}

/// The reason why a configuration is rejected, with the permitted values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(crate) String);

impl ConfigError {
    /// An unusable value.
    pub(super) fn value(key: &str, value: &str, origin: &str, allowed: &str) -> ConfigError {
        ConfigError(format!("{key} = {value} ({origin}): {allowed}"))
    }
}
