//! The response of a node or the output of a command, compared with the expectation of a script.

use serde_json::Value;

use crate::pattern::{Names, ensure, missing};

/// The number of characters of a response that a report prints.
const SHOWN: usize = 1500;

pub(crate) struct Answer {
    /// The status or the exit code.
    pub(crate) code: i32,
    pub(crate) headers: Vec<(String, String)>,
    /// The body, or the stdout of a command.
    pub(crate) text: String,
    /// Only for a command.
    pub(crate) stderr: Option<String>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    pub(crate) fn shown(&self) -> String {
        let text: String = self.text.chars().take(SHOWN).collect();
        let more = self.stderr.clone();
        let more = more.unwrap_or_else(|| format!("{:?}", self.headers));
        format!("{} {text}\n{more}", self.code)
    }

    fn header(&self, name: &str) -> &str {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    /// Returns whether the response has the form of every problem, whatever its code.
    fn is_problem(&self, code: &str) -> bool {
        let problem = self.json();
        let is_later = matches!(self.code, 429 | 503) || problem["retry_after_ms"].is_u64();
        problem["type"] == format!("/problems/{code}")
            && problem["code"] == code
            && problem["status"] == self.code
            && problem["retryable"].is_boolean()
            && problem["title"].is_string()
            && problem["detail"].is_string()
            && self
                .header("content-type")
                .starts_with("application/problem+json")
            && self.header("cache-control") == "no-store"
            && !self.header("x-request-id").is_empty()
            && self.header("retry-after").is_empty() != is_later
    }

    /// Compares the first expected line: the status or exit code, and the rest of the line.
    pub(crate) fn fits(&self, expected: &str, names: &mut Names) -> Result<(), String> {
        let (code, rest) = expected.split_once(' ').unwrap_or((expected, ""));
        ensure(code == self.code.to_string(), || "another code".to_owned())?;
        if let Some(stderr) = self.stderr.as_ref().filter(|_| self.code != 0) {
            ensure(self.text.is_empty(), || "output on stdout".to_owned())?;
            return has_words(rest, stderr);
        }
        if rest.is_empty() || rest.starts_with(['{', '[', '"']) {
            return self.body_fits(rest, names);
        }
        let (code, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        ensure(self.is_problem(code), || {
            format!("not the problem {code}, or not its form")
        })?;
        if rest.starts_with('{') {
            return self.body_fits(rest, names);
        }
        let problem = self.json();
        let text = |field: &str| problem[field].as_str().unwrap_or_default().to_owned();
        has_words(rest, &format!("{}\n{}", text("detail"), text("hint")))
    }

    fn body_fits(&self, pattern: &str, names: &mut Names) -> Result<(), String> {
        if pattern.is_empty() {
            return Ok(());
        }
        let pattern: Value = serde_json::from_str(pattern).map_err(|error| error.to_string())?;
        match &pattern {
            Value::String(pattern) => names.fit_text(pattern, &self.text, true),
            pattern => names.fit(pattern, &self.json()),
        }
    }

    /// Compares a further expected line: a header, or a check that its first word names.
    pub(crate) fn also_fits(&self, expected: &str, names: &mut Names) -> Result<(), String> {
        let (name, value) = expected.split_once(": ").expect("a name and a value");
        let stderr = self.stderr.as_deref().unwrap_or_default();
        let contains = self.text.contains(value) || stderr.contains(value);
        match name {
            "has" => ensure(contains, || format!("{value:?} is not in the answer")),
            "not" => ensure(!contains, || format!("{value:?} is in the answer")),
            "stderr" => has_words(value, stderr),
            "absent" => ensure(self.header(value).is_empty(), || {
                format!("there is {value}")
            }),
            name => names.fit_text(value, self.header(name), true),
        }
    }
}

fn has_words(words: &str, text: &str) -> Result<(), String> {
    let missing = missing(words, text);
    ensure(missing.is_empty(), || format!("missing: {missing:?}"))
}
