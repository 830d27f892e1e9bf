//! Patterns of responses, and the names that they bind.
//!
//! An object needs the fields that the pattern names; `null` also matches a missing field. An array
//! needs the same elements in the same order, unless its first element is `"..."`: then each
//! further element needs a matching one. A text `"$name"` binds the name, or needs the value of the
//! bound name; `"$_"` matches any present value. A text with ` ... ` needs its parts, anywhere.
//! `${name}` is replaced by the value of the name, in requests, in commands and in patterns.

use std::collections::BTreeMap;

use serde_json::Value;

const ELLIPSIS: &str = "...";

/// The parts of the expected words that a text does not contain. `-` expects none.
pub(crate) fn missing<'a>(words: &'a str, text: &str) -> Vec<&'a str> {
    let parts = words.split(ELLIPSIS).map(str::trim);
    let parts = parts.filter(|part| !matches!(*part, "-" | ""));
    parts.filter(|part| !text.contains(part)).collect()
}

pub(crate) fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// The values that a script has bound.
#[derive(Clone, Default)]
pub(crate) struct Names(BTreeMap<String, String>);

impl Names {
    pub(crate) fn bind(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        let value = self.0.get(name);
        value.unwrap_or_else(|| panic!("nothing is bound to {name}"))
    }

    /// Replaces the names in the text by their values.
    pub(crate) fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, (name, after))) = rest
            .split_once("${")
            .and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        {
            filled += before;
            filled += self.get(name);
            rest = after;
        }
        filled + rest
    }

    /// Matches a value with the pattern. The error states where and why they differ.
    pub(crate) fn fit(&mut self, pattern: &Value, found: &Value) -> Result<(), String> {
        let is_equal = match (pattern, found) {
            (Value::Object(fields), _) => {
                for (name, pattern) in fields {
                    let fits = self.fit(pattern, &found[name]);
                    fits.map_err(|why| format!("{name}: {why}"))?;
                }
                return Ok(());
            }
            (Value::Array(patterns), Value::Array(items)) => return self.fit_all(patterns, items),
            (Value::String(pattern), _) if !found.is_null() => {
                let text = found
                    .as_str()
                    .map_or_else(|| found.to_string(), str::to_owned);
                return self.fit_text(pattern, &text, found.is_string());
            }
            _ => pattern == found,
        };
        if is_equal {
            return Ok(());
        }
        Err(format!("{found} is not {pattern}"))
    }

    fn fit_all(&mut self, patterns: &[Value], items: &[Value]) -> Result<(), String> {
        if let Some((_, patterns)) = patterns
            .split_first()
            .filter(|(first, _)| *first == ELLIPSIS)
        {
            for pattern in patterns {
                // An element that does not match binds nothing.
                let fits = items.iter().find_map(|item| {
                    let mut names = self.clone();
                    names.fit(pattern, item).is_ok().then_some(names)
                });
                *self = fits.ok_or_else(|| format!("nothing fits {pattern}"))?;
            }
            return Ok(());
        }
        if patterns.len() != items.len() {
            return Err(format!(
                "{} elements instead of {}",
                items.len(),
                patterns.len()
            ));
        }
        patterns
            .iter()
            .zip(items)
            .try_for_each(|(pattern, item)| self.fit(pattern, item))
    }

    /// Matches a text. A value of another type matches only a name.
    pub(crate) fn fit_text(
        &mut self,
        pattern: &str,
        found: &str,
        is_text: bool,
    ) -> Result<(), String> {
        let differs = || Err(format!("{found:?} is not {pattern:?}"));
        if let Some(name) = pattern.strip_prefix('$') {
            let found = found.trim();
            match self.0.get(name) {
                Some(bound) if bound != found => return Err(format!("{found:?} is not {bound:?}")),
                None if name != "_" => self.bind(name, found),
                _ => {}
            }
            return Ok(());
        }
        let is_equal = match pattern.contains(ELLIPSIS) {
            true => missing(pattern, found).is_empty(),
            false => pattern == found,
        };
        if is_text && is_equal {
            Ok(())
        } else {
            differs()
        }
    }

    /// Evaluates a comparison of two numbers, such as `$a > 5`. Returns an error if it is false.
    pub(crate) fn holds(&self, comparison: &str) -> Result<(), String> {
        let words: Vec<&str> = comparison.split(' ').collect();
        let [one, operator, other] = words[..] else {
            panic!("no comparison: {comparison}");
        };
        let number = |word: &str| -> i128 {
            let text = word.strip_prefix('$').map_or(word, |name| self.get(name));
            text.parse()
                .unwrap_or_else(|_| panic!("{word} is no number: {text}"))
        };
        let (one, other) = (number(one), number(other));
        let holds = match operator {
            "<" => one < other,
            "<=" => one <= other,
            ">" => one > other,
            ">=" => one >= other,
            "=" => one == other,
            "!=" => one != other,
            _ => panic!("no operator: {operator}"),
        };
        holds
            .then_some(())
            .ok_or_else(|| format!("{one} {operator} {other} does not hold"))
    }
}

#[test]
fn an_element_that_does_not_fit_binds_nothing() {
    let json = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let found = json(r#"[{"id": 1, "node": "n3"}, {"id": 2, "node": "n1"}]"#);
    let mut names = Names::default();
    let pattern = json(r#"["...", {"id": "$id", "node": "n1"}]"#);
    assert_eq!(names.fit(&pattern, &found), Ok(()));
    assert_eq!(names.get("id"), "2");
}

#[test]
fn a_pattern_fits_what_it_names_and_binds_its_names() {
    let json = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let found = json(r#"{"a": [1, {"b": "7"}], "c": "one two", "d": 5}"#);
    let mut names = Names::default();
    for fits in [
        r#"{"a": ["...", {"b": "$b"}], "e": null}"#,
        r#"{"a": [1, {"b": "$b"}], "c": "two ... one", "d": "$d"}"#,
        r#"{"a": [1, {"b": "${b}"}], "d": 5, "c": "$_"}"#,
    ] {
        let pattern = json(&names.fill(fits));
        assert_eq!(names.fit(&pattern, &found), Ok(()), "{fits}");
    }
    for differs in [
        r#"{"a": [1]}"#,
        r#"{"a": ["...", 2]}"#,
        r#"{"c": "$b"}"#,
        r#"{"c": "one ... three"}"#,
        r#"{"c": "one"}"#,
        r#"{"d": "5"}"#,
        r#"{"e": "$_"}"#,
        r#"{"c": null}"#,
    ] {
        assert!(names.fit(&json(differs), &found).is_err(), "{differs}");
    }
    assert_eq!(names.holds("$b > $d"), Ok(()));
    assert!(names.holds("$b = 5").is_err());
}
