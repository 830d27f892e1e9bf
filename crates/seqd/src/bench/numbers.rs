//! Reads the numbers of a response: lines of text, a field of a JSON document, or ranges.

use std::str::FromStr;

use seqd_client::api::{HeldLock, Next};
use serde_json::Value;

/// A run of numbers, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Run {
    /// The count of its numbers, which are at this distance.
    pub(crate) fn count(self, step: i64) -> u64 {
        self.high.abs_diff(self.low) / step.unsigned_abs().max(1) + 1
    }
}

/// The numbers of one response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) runs: Vec<Run>,
    pub(crate) count: u64,
}

impl Numbers {
    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.count = 0;
    }

    pub(crate) fn push(&mut self, number: i64) {
        self.count += 1;
        if let Some(run) = self.runs.last_mut()
            && run.high.checked_add(1) == Some(number)
        {
            run.high = number;
            return;
        }
        self.runs.push(Run {
            low: number,
            high: number,
        });
    }

    fn push_range(&mut self, first: i64, last: i64, count: u64) {
        self.count += count;
        self.runs.push(Run {
            low: first.min(last),
            high: first.max(last),
        });
    }

    /// The smallest and the largest number.
    pub(crate) fn ends(&self) -> Option<Run> {
        let low = self.runs.iter().map(|run| run.low).min()?;
        let high = self.runs.iter().map(|run| run.high).max()?;
        Some(Run { low, high })
    }
}

/// The place of the numbers in a JSON document: names of fields and indices of arrays, with dots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonPath(Vec<String>);

impl FromStr for JsonPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let steps: Vec<String> = text.split('.').map(str::to_owned).collect();
        if steps.iter().any(String::is_empty) {
            return Err(
                "it takes names and indices with dots between them, such as \
                        data.ids.0"
                    .to_owned(),
            );
        }
        Ok(Self(steps))
    }
}

impl JsonPath {
    fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(document, |value, step| match value {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        })
    }
}

/// The form of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// One number per line. A JSON string of digits is accepted too.
    Text,
    /// A number, a string of digits, or an array of them, at this place of a JSON document.
    Json(JsonPath),
    /// The ranges of a sequence.
    Ranges,
}

impl Read {
    /// Adds the numbers of `body`.
    pub(crate) fn numbers(&self, body: &[u8], numbers: &mut Numbers) -> Result<(), String> {
        match self {
            Self::Text => text(body, numbers),
            Self::Json(path) => {
                let document: Value = parsed(body)?;
                let found = path.find(&document);
                let found = found.ok_or_else(|| {
                    format!(
                        "the response has no field {}; it begins {}",
                        path.0.join("."),
                        start(body)
                    )
                })?;
                json(found, numbers)
            }
            Self::Ranges => {
                let next: Next = parsed(body)?;
                for range in &next.ranges {
                    numbers.push_range(range.first, range.last, range.count);
                }
                Ok(())
            }
        }
    }
}

/// Adds the fencing token of a held lock.
pub(crate) fn token(held: &HeldLock, numbers: &mut Numbers) -> Result<(), String> {
    let token = i64::try_from(held.token);
    numbers.push(token.map_err(|_| format!("token {} exceeds 2^63-1", held.token))?);
    Ok(())
}

fn parsed<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body)
        .map_err(|error| format!("the response is not the expected JSON: {error}"))
}

fn text(body: &[u8], numbers: &mut Numbers) -> Result<(), String> {
    let wrong = || {
        format!(
            "the response is not a number from -2^63 to 2^63-1; it begins {}",
            start(body)
        )
    };
    let text = std::str::from_utf8(body).map_err(|_| wrong())?;
    let before = numbers.count;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let digits = line
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        numbers.push(digits.unwrap_or(line).parse().map_err(|_| wrong())?);
    }
    if numbers.count == before {
        return Err("the response is empty".to_owned());
    }
    Ok(())
}

fn json(value: &Value, numbers: &mut Numbers) -> Result<(), String> {
    if let Value::Array(items) = value {
        return items.iter().try_for_each(|item| json(item, numbers));
    }
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let wrong = || {
        let shown: String = value.to_string().chars().take(SHOWN).collect();
        format!("{shown} is not a number from -2^63 to 2^63-1, nor an array of such numbers")
    };
    numbers.push(number.ok_or_else(wrong)?);
    Ok(())
}

/// The characters of a response that a message quotes.
const SHOWN: usize = 60;

fn start(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    format!("{:?}", text.chars().take(SHOWN).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: &Read, body: &str) -> Result<Vec<(i64, i64)>, String> {
        let mut numbers = Numbers::default();
        form.numbers(body.as_bytes(), &mut numbers)?;
        Ok(numbers.runs.iter().map(|run| (run.low, run.high)).collect())
    }

    fn at(path: &str) -> Read {
        Read::Json(path.parse().unwrap())
    }

    #[test]
    fn text_is_one_number_per_line() {
        assert_eq!(read(&Read::Text, "7\n8\n10\n"), Ok(vec![(7, 8), (10, 10)]));
        assert_eq!(read(&Read::Text, " \"-5\" "), Ok(vec![(-5, -5)]));
        let (most, least) = (i64::MAX, i64::MIN);
        let both = format!("{most}\n{least}");
        assert_eq!(
            read(&Read::Text, &both),
            Ok(vec![(most, most), (least, least)])
        );
        for wrong in ["", "\n", "x", "1.5", "9223372036854775808", "{\"id\":1}"] {
            assert!(read(&Read::Text, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_field_of_a_document_is_a_number_or_an_array() {
        let body = r#"{"data":{"ids":["4","5",9]},"id":"12"}"#;
        assert_eq!(read(&at("id"), body), Ok(vec![(12, 12)]));
        assert_eq!(read(&at("data.ids"), body), Ok(vec![(4, 5), (9, 9)]));
        assert_eq!(read(&at("data.ids.1"), body), Ok(vec![(5, 5)]));
        let missing = read(&at("data.id"), body).unwrap_err();
        assert!(missing.contains("no field data.id"), "{missing}");
        assert!(read(&at("data"), body).is_err() && read(&at("id"), "no").is_err());
        for wrong in ["", "a..b", ".a"] {
            assert!(wrong.parse::<JsonPath>().is_err());
        }
    }

    #[test]
    fn ranges_keep_their_counts() {
        let body = r#"{"ranges":[{"first":"9","last":"5","count":3}],"first":"9","last":"5",
                       "count":3,"increment":"-2","mode":"strict"}"#;
        let mut numbers = Numbers::default();
        Read::Ranges.numbers(body.as_bytes(), &mut numbers).unwrap();
        assert_eq!(numbers.ends(), Some(Run { low: 5, high: 9 }));
        assert_eq!(numbers.count, 3);
    }
}
