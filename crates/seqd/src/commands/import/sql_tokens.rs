//! The tokens of MySQL's SQL, as far as dumps use them. Pure.

use super::table::Refusal;

/// A token. Comments, including conditional ones, are skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A keyword, a bare name or a number.
    Word(String),
    /// A name in backquotes.
    Quoted(String),
    /// A string.
    Text(String),
    /// Any other character.
    Mark(char),
}

impl Token {
    /// Returns whether the token is this keyword, in any case.
    pub(super) fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(found) if found.eq_ignore_ascii_case(word))
    }
}

/// Reads one token after another.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    rest: &'a str,
    line: u64,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let (rest, line) = (text, 1);
        Self { rest, line }
    }

    /// The current line.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    pub(super) fn refusal(&self, reason: &str) -> Refusal {
        Refusal::new(self.line, reason)
    }

    /// Takes the next token if it is this character.
    pub(super) fn take(&mut self, mark: char) -> Result<bool, Refusal> {
        self.skip_blank()?;
        let found = self.rest.starts_with(mark);
        if found {
            self.advance(mark.len_utf8());
        }
        Ok(found)
    }

    /// The next token, or `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Token>, Refusal> {
        self.skip_blank()?;
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        if matches!(first, '\'' | '"' | '`') {
            let text = self.quoted(first)?;
            let is_name = first == '`';
            let token = if is_name { Token::Quoted } else { Token::Text };
            return Ok(Some(token(text)));
        }
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '@');
        let is_number = first.is_ascii_digit() || matches!(first, '-' | '+');
        let in_word = |c: char| is_word(c) || (is_number && c == '.');
        if is_word(first) || is_number {
            let mut following = self.rest.char_indices().skip(1);
            let end = following.find(|(_, c)| !in_word(*c));
            let end = end.map_or(self.rest.len(), |(at, _)| at);
            let word = self.rest[..end].to_owned();
            self.advance(end);
            return Ok(Some(Token::Word(word)));
        }
        self.advance(first.len_utf8());
        Ok(Some(Token::Mark(first)))
    }

    fn advance(&mut self, bytes: usize) {
        self.line += self.rest[..bytes].matches('\n').count() as u64;
        self.rest = &self.rest[bytes..];
    }

    fn skip_blank(&mut self) -> Result<(), Refusal> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.advance(blank);
            let dashes = self.rest.strip_prefix("--");
            let is_dashes = dashes
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']));
            if is_dashes || self.rest.starts_with('#') {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.advance(end);
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(self.refusal("the end of the comment is missing"));
                };
                self.advance(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// Reads text between quotes. A doubled quote is one quote; a backslash escapes in strings.
    fn quoted(&mut self, quote: char) -> Result<String, Refusal> {
        let mut out = String::new();
        let mut characters = self.rest.char_indices().skip(1).peekable();
        while let Some((at, character)) = characters.next() {
            if character == '\\' && quote != '`' {
                let Some((_, escaped)) = characters.next() else {
                    break;
                };
                out.push(match escaped {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'Z' => '\u{1a}',
                    '0' => '\0',
                    other => other,
                });
            } else if character != quote {
                out.push(character);
            } else if characters.next_if(|(_, next)| *next == quote).is_some() {
                out.push(quote);
            } else {
                self.advance(at + 1);
                return Ok(out);
            }
        }
        Err(self.refusal("the closing quote is missing"))
    }
}
