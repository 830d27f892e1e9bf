//! Names of sequences, members and layouts: 1 to 128 characters of `[A-Za-z0-9._:-]`, the first
//! alphanumeric.

/// The longest name, in bytes: long enough for a dotted path, short enough for a metric label.
pub const MAX_NAME_LEN: usize = 128;

/// The rule for names, for messages. The replicated state has its own copy of the rule
/// (`seqd_idgen::is_name`), which must be the same in all versions of a cluster's nodes. A test of
/// the crate `node` compares the two.
pub const NAME_RULE: &str = "1 to 128 of A-Z a-z 0-9 . _ : -, the first a letter or a digit";

/// The reason why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("a name has 1 to 128 characters; this one is empty")]
    Empty,
    /// The text is longer than [`MAX_NAME_LEN`].
    #[error("a name has 1 to 128 characters; this one has {len}")]
    TooLong {
        /// The length of the text, in characters.
        len: usize,
    },
    /// The text does not begin with a letter or a digit.
    #[error("a name begins with a letter A-Z, a-z or a digit, not with {first:?}")]
    First {
        /// The first character.
        first: char,
    },
    /// The text has a character that is not allowed in names.
    #[error("a name has only A-Z, a-z, 0-9, '.', '_', ':' and '-'; this one has {found:?}")]
    Character {
        /// The first such character.
        found: char,
    },
}

/// Checks that `text` is a valid name.
///
/// # Errors
/// The reason why it is not valid.
pub fn validate_name(text: &str) -> Result<(), NameError> {
    let Some(first) = text.chars().next() else {
        return Err(NameError::Empty);
    };
    if !first.is_ascii_alphanumeric() {
        return Err(NameError::First { first });
    }
    let odd = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-'));
    if let Some(found) = text.chars().find(odd) {
        return Err(NameError::Character { found });
    }
    if text.len() > MAX_NAME_LEN {
        return Err(NameError::TooLong { len: text.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_published() {
        for good in ["a", "0", "order", "eu.order:2026_11-x", &"x".repeat(128)] {
            assert_eq!(validate_name(good), Ok(()), "{good}");
        }
        assert_eq!(validate_name(""), Err(NameError::Empty));
        assert_eq!(validate_name("-a"), Err(NameError::First { first: '-' }));
        assert_eq!(validate_name(".."), Err(NameError::First { first: '.' }));
        assert_eq!(
            validate_name("a/b"),
            Err(NameError::Character { found: '/' })
        );
        assert_eq!(
            validate_name("zähler"),
            Err(NameError::Character { found: 'ä' })
        );
        assert_eq!(
            validate_name(&"x".repeat(129)),
            Err(NameError::TooLong { len: 129 })
        );
    }
}
