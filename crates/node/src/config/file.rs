//! Reads the text of a configuration file: its keys, with their values as texts.

use seqd_api::nearest;

use super::keys::{self, KEYS, Key, Kind, quoted};
use super::values::ConfigError;

/// The keys in a file and their values. `path` appears in messages.
pub(super) fn read(path: &str, text: &str) -> Result<Vec<(&'static Key, String)>, ConfigError> {
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| unreadable(path, text, &error))?;
    let mut found = Vec::new();
    for (section, value) in table {
        let inner = match value {
            toml::Value::Table(inner) if keys_have(&section) => inner,
            _ => return Err(unknown_section(path, &section)),
        };
        for (name, value) in inner {
            let full = format!("{section}.{name}");
            let key = keys::find(&full).ok_or_else(|| unknown_key(path, &full))?;
            let text = as_text(key.kind, &value).ok_or_else(|| {
                let value = value.to_string();
                let expected = expected(key, &name, &value);
                ConfigError::value(key.name, &value, path, &expected)
            })?;
            found.push((key, text));
        }
    }
    Ok(found)
}

/// Converts a TOML value to text, a list to one text with commas. An item that is empty or contains
/// a comma therefore keeps its quotes, and the rule of each list rejects it.
fn as_text(kind: Kind, value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Boolean(is_on) if kind == Kind::Switch => Some(is_on.to_string()),
        toml::Value::Array(items) => {
            let item = |item: &toml::Value| {
                let text = item.as_str()?.trim();
                let unfit = text.is_empty() || text.contains(',');
                Some(match kind {
                    Kind::List if unfit => format!("\"{text}\""),
                    _ => text.to_owned(),
                })
            };
            let items: Option<Vec<_>> = items.iter().map(item).collect();
            Some(items?.join(","))
        }
        _ => None,
    }
}

/// Describes the value of a key that has the TOML value `value` of a wrong type, or none.
fn expected(key: &Key, name: &str, value: &str) -> String {
    match key.kind {
        Kind::Text => format!("text needs quotes: write {name} = {}", quoted(value)),
        Kind::Number => "expected a whole number, without quotes".to_owned(),
        Kind::Switch => "expected true or false, without quotes".to_owned(),
        Kind::List => {
            let items = value.trim_matches(['[', ']']).split(',');
            let items = items.map(|item| quoted(item.trim().trim_matches('"')));
            let items = items.collect::<Vec<_>>().join(", ");
            format!("expected a list of texts, each in quotes: write {name} = [{items}]")
        }
    }
}

/// The message for a text that is not TOML. Text without quotes, the most frequent mistake, has a
/// message of its own, because the TOML parser reports it as an invalid number.
fn unreadable(path: &str, text: &str, error: &toml::de::Error) -> ConfigError {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.get(..start).unwrap_or_default();
    let at = before.matches('\n').count();
    let line = text.lines().nth(at).unwrap_or_default();
    let section = before.lines().rev().find_map(|line| {
        let inner = line.trim().strip_prefix('[')?.split(']').next()?;
        keys_have(inner).then_some(inner)
    });
    match without_quotes(line, section) {
        Some((key, value, expected)) => {
            let origin = format!("{path}, line {}", at + 1);
            ConfigError::value(&key, value, &origin, &expected)
        }
        None => ConfigError(format!("{path}: {error}")),
    }
}

fn keys_have(section: &str) -> bool {
    KEYS.iter().any(|key| section_of(key) == section)
}

/// The key and the value of a line whose value has no quotes and is not a TOML value, and the
/// correction.
fn without_quotes<'a>(line: &'a str, section: Option<&str>) -> Option<(String, &'a str, String)> {
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.split('#').next().unwrap_or(value).trim());
    let full = match section {
        Some(section) => format!("{section}.{name}"),
        None => name.to_owned(),
    };
    let key = keys::find(&full)?;
    let is_list = value.starts_with('[') && value.ends_with(']');
    let is_plain = !value.is_empty() && !value.contains(['"', '\'', '{', '[', ']']);
    // The value may be right, and another part of the line wrong.
    let is_toml = format!("key = {value}").parse::<toml::Table>().is_ok();
    let is_text = is_plain || is_list && key.kind == Kind::List;
    if is_toml || !is_text {
        return None;
    }
    let expected = expected(key, name, value);
    Some((full, value, expected))
}

fn section_of(key: &Key) -> &'static str {
    key.name.split('.').next().unwrap_or(key.name)
}

fn unknown_key(origin: &str, key: &str) -> ConfigError {
    let names: Vec<&str> = KEYS.iter().map(|known| known.name).collect();
    unknown(origin, key, nearest(key, &names).map(str::to_owned))
}

/// Suggests the full name of a key that is given without its section, or the section with the
/// nearest name.
fn unknown_section(origin: &str, name: &str) -> ConfigError {
    let bare = KEYS.iter().find(|known| {
        let (_, last) = known.name.split_once('.').unwrap_or_default();
        last == name
    });
    let sections: Vec<&str> = KEYS.iter().map(section_of).collect();
    let near = bare.map(|key| key.name.to_owned());
    let near = near.or_else(|| nearest(name, &sections).map(|near| format!("[{near}]")));
    unknown(origin, name, near)
}

fn unknown(origin: &str, key: &str, near: Option<String>) -> ConfigError {
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None => "`seqd config show` lists all keys".to_owned(),
    };
    ConfigError(format!("{origin}: unknown key {key}; {hint}"))
}
