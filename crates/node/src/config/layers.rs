//! Merging the layers: flag over environment over file over default, origin kept.

use std::collections::BTreeMap;

use seqd_api::nearest;

use super::keys::{self, KEYS, Key, Kind};
use super::{Config, ConfigError, checks};

/// Where a value comes from, weakest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The table of keys.
    Default,
    /// Worked out from other keys.
    Derived,
    /// A configuration file.
    File(String),
    /// An environment variable.
    Variable(String),
    /// A command-line flag.
    Flag(String),
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

/// A value as text, before it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Raw {
    One(String),
    Many(Vec<String>),
}

impl Raw {
    /// As one text, a list comma-separated.
    pub(super) fn text(&self) -> String {
        match self {
            Raw::One(text) => text.clone(),
            Raw::Many(items) => items.join(","),
        }
    }

    /// As a list; a text is split at commas.
    pub(super) fn items(&self) -> Vec<String> {
        let split = |text: &str| {
            text.split(',')
                .map(|item| item.trim().to_owned())
                .filter(|item| !item.is_empty())
                .collect()
        };
        match self {
            Raw::One(text) => split(text),
            Raw::Many(items) => items.iter().map(|item| item.trim().to_owned()).collect(),
        }
    }
}

/// One key's value in force, for `config show`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: &'static Key,
    /// Its value as TOML; `None` where nothing is set.
    pub value: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
}

/// A configuration that passed all checks.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The typed values.
    pub config: Config,
    /// All keys with values and origins.
    pub entries: Vec<Entry>,
    /// What works but is unwise.
    pub warnings: Vec<String>,
}

/// The layers gathered so far. Later calls may come in any order: the origin decides.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    values: BTreeMap<&'static str, (Origin, Raw)>,
}

impl Layers {
    /// No layer but the defaults.
    pub fn new() -> Layers {
        Layers::default()
    }

    /// Adds a configuration file's text; `path` is shown in messages.
    pub fn file(mut self, path: &str, text: &str) -> Result<Layers, ConfigError> {
        let not_toml = |detail: String| ConfigError::NotToml {
            path: path.to_owned(),
            detail,
        };
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| not_toml(error.to_string()))?;
        for (section, value) in table {
            let known = KEYS.iter().any(|key| in_section(key, &section));
            let inner = match value {
                toml::Value::Table(inner) if known => inner,
                _ => return Err(unknown(path, &section, true)),
            };
            for (name, value) in inner {
                let full = format!("{section}.{name}");
                let key = keys::find(&full).ok_or_else(|| unknown(path, &full, false))?;
                let raw = raw_of(value).ok_or_else(|| ConfigError::Value {
                    key: key.name,
                    value: "a value of another type".to_owned(),
                    origin: path.to_owned(),
                    allowed: "give a text, a number or a list of texts".to_owned(),
                })?;
                self.put(key, Origin::File(path.to_owned()), raw);
            }
        }
        Ok(self)
    }

    /// Adds the environment: `lookup` answers for one variable.
    pub fn environment(mut self, lookup: impl Fn(&str) -> Option<String>) -> Layers {
        for key in KEYS {
            let name = key.variable();
            if let Some(value) = lookup(&name) {
                self.put(key, Origin::Variable(name), Raw::One(value));
            }
        }
        self
    }

    /// Adds flags as (key name such as `http.listen`, value).
    pub fn flags(
        mut self,
        flags: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Layers, ConfigError> {
        for (name, value) in flags {
            let key = keys::find(&name).ok_or_else(|| unknown("command line", &name, false))?;
            self.put(key, Origin::Flag(key.flag()), Raw::One(value));
        }
        Ok(self)
    }

    /// Merges, fills in defaults, derives what follows from other keys, and checks everything.
    /// `hostname` answers for `name_from = "hostname"` and derived addresses.
    pub fn resolve(&self, hostname: &str) -> Result<Resolved, ConfigError> {
        checks::resolve(self, hostname)
    }

    /// The value in force and its origin.
    pub(super) fn get(&self, name: &'static str) -> Option<(Origin, Raw)> {
        self.values.get(name).cloned().or_else(|| {
            let default = keys::find(name)?.default?;
            Some((Origin::Default, Raw::One(default.to_owned())))
        })
    }

    fn put(&mut self, key: &'static Key, origin: Origin, raw: Raw) {
        match self.values.get(key.name) {
            Some((present, _)) if rank(present) > rank(&origin) => {}
            _ => {
                self.values.insert(key.name, (origin, raw));
            }
        }
    }
}

/// A value written as TOML for its key.
pub(super) fn as_toml(kind: Kind, raw: &Raw) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    match kind {
        Kind::Text => quoted(&raw.text()),
        Kind::Number => raw.text(),
        Kind::List => {
            let items: Vec<String> = raw.items().iter().map(|item| quoted(item)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

fn rank(origin: &Origin) -> u8 {
    match origin {
        Origin::Default | Origin::Derived => 0,
        Origin::File(_) => 1,
        Origin::Variable(_) => 2,
        Origin::Flag(_) => 3,
    }
}

fn in_section(key: &Key, section: &str) -> bool {
    key.name
        .split_once('.')
        .is_some_and(|(own, _)| own == section)
}

fn raw_of(value: toml::Value) -> Option<Raw> {
    match value {
        toml::Value::String(text) => Some(Raw::One(text)),
        toml::Value::Integer(number) => Some(Raw::One(number.to_string())),
        toml::Value::Array(items) => items
            .into_iter()
            .map(|item| match item {
                toml::Value::String(text) => Some(text),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(Raw::Many),
        _ => None,
    }
}

fn unknown(origin: &str, key: &str, section: bool) -> ConfigError {
    // A key without its section is found by its last part, a misspelt section by its name.
    let full: Vec<&str> = KEYS.iter().map(|known| known.name).collect();
    let own = |name: &&'static str| name.split_once('.').map(|(section, _)| section);
    let sections: Vec<&str> = full.iter().filter_map(own).collect();
    let found = if section {
        let bare = KEYS
            .iter()
            .find(|known| known.name.ends_with(&format!(".{key}")));
        bare.map(|known| known.name)
            .or_else(|| nearest(key, &sections))
    } else {
        nearest(key, &full)
    };
    let hint = match found {
        Some(name) if section && !name.contains('.') => format!("; did you mean [{name}]?"),
        Some(name) => format!("; did you mean {name}?"),
        None => "; `seqd config show` lists all keys".to_owned(),
    };
    ConfigError::UnknownKey {
        origin: origin.to_owned(),
        key: key.to_owned(),
        hint,
    }
}
