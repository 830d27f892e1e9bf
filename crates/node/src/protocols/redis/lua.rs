//! The normal form of a Lua script. Scripts that differ only in their spelling have the same form.
//!
//! Comments and blanks are dropped, strings have one kind of quote, names of Redis commands are in
//! capitals, and local names are numbered in the order of their appearance.

use std::collections::HashMap;

/// Names that keep their meaning.
const KNOWN: [&str; 33] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while", "redis", "call",
    "pcall", "KEYS", "ARGV", "tonumber", "string", "table", "ipairs", "unpack", "sub", "insert",
];

/// Names that are replaced by another name with the same meaning.
const SAME: [(&str, &str); 2] = [("pcall", "call"), ("UNLINK", "DEL")];

/// The normal form of a script; `None` if it cannot be split into tokens. No known script has such
/// text.
pub(super) fn normal_form(script: &str) -> Option<String> {
    let mut normal = String::new();
    let mut locals: HashMap<&str, usize> = HashMap::new();
    let mut rest = script;
    let mut previous = "";
    while let Some(token) = next_token(&mut rest)? {
        let first = token.as_bytes().first().copied().unwrap_or_default();
        if token == ";" {
            continue;
        }
        normal.push(' ');
        match first {
            b'"' | b'\'' => push_string(&mut normal, token, previous == "call("),
            _ if is_word(first) && !first.is_ascii_digit() => {
                let is_field = previous == "." && !KNOWN.contains(&token);
                if KNOWN.contains(&token) || is_field {
                    let same = SAME.iter().find(|(from, _)| *from == token);
                    normal.push_str(same.map_or(token, |(_, to)| to));
                } else {
                    let next = locals.len();
                    let number = locals.entry(token).or_insert(next);
                    normal.push_str(&format!("v{number}"));
                }
            }
            _ => normal.push_str(token),
        }
        previous = match (previous, token) {
            ("call" | "pcall", "(") => "call(",
            (_, token) => token,
        };
    }
    Some(normal)
}

/// Writes a string with one kind of quote; the name of a command or an option in capitals.
fn push_string(normal: &mut String, token: &str, is_command: bool) {
    let text = &token[1..token.len() - 1];
    let upper = text.to_ascii_uppercase();
    let is_option = matches!(upper.as_str(), "NX" | "PX" | "EX");
    let text = match is_command || is_option {
        true => SAME
            .iter()
            .find(|(from, _)| *from == upper)
            .map_or(upper.as_str(), |(_, to)| to),
        false => text,
    };
    normal.push('"');
    normal.push_str(text);
    normal.push('"');
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Takes the next word, number, string or sign. `Some(None)` at the end; `None` if a string does
/// not end or has an escape, and for a long comment.
#[expect(clippy::option_option, reason = "the end of a script is no error")]
fn next_token<'a>(rest: &mut &'a str) -> Option<Option<&'a str>> {
    loop {
        *rest = rest.trim_start();
        let Some(comment) = rest.strip_prefix("--") else {
            break;
        };
        if comment.starts_with("[[") {
            return None;
        }
        *rest = comment.split_once('\n').map_or("", |(_, after)| after);
    }
    let Some(first) = rest.chars().next() else {
        return Some(None);
    };
    let length = match first {
        '"' | '\'' => {
            let inside = &rest[1..];
            let end = inside.find([first, '\\', '\n'])?;
            if !inside[end..].starts_with(first) {
                return None;
            }
            end + 2
        }
        first if first.is_ascii() && is_word(first as u8) => {
            let end = rest.find(|next: char| !(next.is_ascii() && is_word(next as u8)));
            end.unwrap_or(rest.len())
        }
        _ => {
            let two = rest
                .get(..2)
                .filter(|two| matches!(*two, "==" | "~=" | "<=" | ">=" | ".."));
            two.map_or(first.len_utf8(), str::len)
        }
    };
    let (token, after) = rest.split_at(length);
    *rest = after;
    Some(Some(token))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spelling_does_not_count() {
        let plain = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) \
                     else return 0 end";
        let other = "-- release\nif redis.call(\"GET\",KEYS[1])==ARGV[1] then\n\treturn \
                     redis.pcall(\"UNLINK\",KEYS[1]);\nelse return 0; end";
        assert_eq!(normal_form(plain), normal_form(other));
        let local = |name: &str| normal_form(&format!("local {name} = KEYS[1] return {name}"));
        assert_eq!(local("token"), local("val"));
    }

    #[test]
    fn meaning_counts() {
        let normal = |text| normal_form(text).unwrap();
        for (one, other) in [
            ("return 0", "return 1"),
            ("return ARGV[1]", "return ARGV[2]"),
            ("redis.call('get', KEYS[1])", "redis.call('del', KEYS[1])"),
            (
                "local a = 1 local b = 2 return a",
                "local a = 1 local b = 2 return b",
            ),
            ("return 'OK'", "return 'ok'"),
            ("a == b", "a ~= b"),
        ] {
            assert_ne!(normal(one), normal(other));
        }
        for broken in ["return 'a", "return 'a\\n'", "--[[ a ]] return 1", "'a\n'"] {
            assert_eq!(normal_form(broken), None, "{broken}");
        }
    }

    proptest! {
        #[test]
        fn any_text_ends(text in ".{0,200}") {
            normal_form(&text);
        }
    }
}
