//! Writes the values in force.

use super::keys::Entry;
use super::values::Origin;

/// The values in force that are not defaults, on one line.
pub fn given(entries: &[Entry]) -> String {
    let given = entries
        .iter()
        .filter(|entry| entry.origin != Origin::Default);
    let lines = given.filter_map(|entry| {
        let value = entry.value.as_deref()?;
        Some(format!("{} = {value} ({})", entry.key.name, entry.origin))
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// The values in force, as a TOML file. With `origin`, each line ends with the origin of its value.
pub fn show(entries: &[Entry], origin: bool) -> String {
    let mut text = String::new();
    let mut section = "";
    for entry in entries {
        let (own, name) = entry
            .key
            .name
            .split_once('.')
            .unwrap_or(("", entry.key.name));
        if own != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            text.push_str(&format!("{gap}[{own}]\n"));
            section = own;
        }
        let line = match &entry.value {
            // A file with both this key and the name derived from it would be rejected.
            Some(value) if entry.key.name == "node.name_from" => {
                format!("# name derived from {name} = {value}")
            }
            Some(value) => format!("{name} = {value}"),
            None => format!("# {name} is not set"),
        };
        match (&entry.value, origin) {
            (Some(_), true) => text.push_str(&format!("{line:<44} # {}\n", entry.origin)),
            _ => text.push_str(&format!("{line}\n")),
        }
    }
    text
}
