//! The format of a script: lines of text that become sections of steps.
//!
//! ```text
//! # A comment. A line that ends with \ continues on the next line.
//! nodes: 3                    before the first step: the number of nodes, 1 by default
//! tokens: required            callers need an access token; `operator` permits everything
//! stranger: n4                a started node that is not a member; `stranger` is its peer address
//!
//! == one lock has one holder                 a section; it drops the names of the section before
//! > POST /v1/locks/a/acquire {"owner": "x"}  a request, with its JSON body
//!   if-none-match: ${tag}                    a header of the request
//! < 200 {"token": "$token"}                  the expected answer
//! < cache-control: no-store                  an expected header
//! reader @1 > GET /v1/locks                  with the token bound to `reader`, at the second node
//! until @2 > GET /v1/locks/a                 repeated until the expected answer comes
//! $ seqd lock get a -o json                  a command
//! < 0 {"held": 1}                            its exit code and its stdout
//! check $token > 7                           a comparison of numbers
//! dry $ seqd seq delete a                    a dry run of the command, then the command
//! ```
//!
//! An expected answer is a status or exit code and, optionally, one of these:
//!
//! - JSON: a pattern of the body or of stdout, see the module `pattern`
//! - for a refused request, the problem's code, then words of its detail and hint, or a pattern
//! - for a command, words of stderr
//!
//! Further lines name a header, `absent` (a header), `stderr`, `has` or `not` (a text that the
//! answer must or must not contain).
//!
//! A dry run changes nothing. If the command is refused, the dry run has the same exit code and
//! words. If the command succeeds, the dry run announces an effect that contains the expected
//! words; the word `nothing` expects that the command changes nothing.

/// The lines of a file that are not comments, with their numbers.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
}

pub(crate) struct Script {
    pub(crate) nodes: usize,
    pub(crate) needs_tokens: bool,
    /// The name of a node that is started but not a member.
    pub(crate) stranger: Option<String>,
    /// The first section, without a title, binds names for all others.
    pub(crate) sections: Vec<Section>,
}

pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Request,
    Command,
    /// A dry run of a command, then the command itself.
    DryRun,
    Check,
}

pub(crate) struct Step {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) caller: Option<String>,
    pub(crate) node: usize,
    pub(crate) is_repeated: bool,
    pub(crate) text: String,
    pub(crate) headers: Vec<String>,
    /// The expected lines, with their numbers.
    pub(crate) expected: Vec<(usize, String)>,
}

impl Script {
    /// Parses a script. Panics with the line that is invalid.
    pub(crate) fn parse(text: &str) -> Script {
        let first = Section::titled("");
        let mut script = Script {
            nodes: 1,
            needs_tokens: false,
            stranger: None,
            sections: vec![first],
        };
        for (line, text) in joined(text) {
            script.take(line, &text);
        }
        script
    }

    fn take(&mut self, line: usize, text: &str) {
        if let Some(title) = text.strip_prefix("== ") {
            return self.sections.push(Section::titled(title));
        }
        if let Some(nodes) = text.strip_prefix("nodes: ") {
            self.nodes = nodes.parse().expect("a number of nodes");
            return;
        }
        if let Some(name) = text.strip_prefix("stranger: ") {
            self.stranger = Some(name.to_owned());
            return;
        }
        if text == "tokens: required" {
            self.needs_tokens = true;
            return;
        }
        let steps = &mut self.sections.last_mut().expect("a section").steps;
        let latest = steps.last_mut();
        match (text.strip_prefix("< "), text.strip_prefix("  "), latest) {
            (Some(expected), _, Some(step)) => step.expected.push((line, expected.to_owned())),
            (_, Some(header), Some(step)) => step.headers.push(header.to_owned()),
            _ => steps.push(Step::parse(line, text)),
        }
    }
}

impl Section {
    fn titled(title: &str) -> Section {
        Section {
            title: title.to_owned(),
            steps: Vec::new(),
        }
    }
}

impl Step {
    fn parse(line: usize, text: &str) -> Step {
        let mut step = Step {
            line,
            kind: Kind::Check,
            caller: None,
            node: 0,
            is_repeated: false,
            text: String::new(),
            headers: Vec::new(),
            expected: Vec::new(),
        };
        let (mut rest, mut is_dry) = (text, false);
        while let Some((word, after)) = rest.split_once(' ') {
            rest = after;
            match (word, word.strip_prefix('@')) {
                (">", _) => step.kind = Kind::Request,
                ("$", _) if is_dry => step.kind = Kind::DryRun,
                ("$", _) => step.kind = Kind::Command,
                ("check", _) => {}
                ("until", _) => {
                    step.is_repeated = true;
                    continue;
                }
                ("dry", _) => {
                    is_dry = true;
                    continue;
                }
                (_, Some(node)) => {
                    step.node = node.parse().expect("the place of a node");
                    continue;
                }
                (name, None) => {
                    step.caller = Some(name.to_owned());
                    continue;
                }
            }
            step.text = rest.to_owned();
            return step;
        }
        panic!("line {line} is no step: {text}");
    }
}

/// The lines, with continued lines joined.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut joined: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (line, text) in lines(text) {
        let (text, ends_open) = match text.strip_suffix('\\') {
            Some(text) => (text, true),
            None => (text, false),
        };
        match joined.last_mut().filter(|_| continues) {
            Some((_, all)) => all.push_str(text.trim_start()),
            None => joined.push((line, text.to_owned())),
        }
        continues = ends_open;
    }
    joined
}

/// The words of a command line, with single quotes as in a shell.
pub(crate) fn words_of(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_word, mut in_quotes) = (String::new(), false, false);
    for c in line.chars() {
        match c {
            '\'' => (in_quotes, is_word) = (!in_quotes, true),
            ' ' if !in_quotes => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            c => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
}
