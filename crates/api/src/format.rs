//! Text forms of a 64-bit ID: decimal, hexadecimal, base62 and Crockford's base 32.
//!
//! base62 (`0-9A-Za-z`) always has 11 characters and Crockford always 13, so that the texts sort in
//! the order of their numbers. Decimal and hexadecimal have no leading zeros unless they are
//! padded.

use std::fmt;
use std::str::FromStr;

/// A text form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IdFormat {
    /// Decimal digits.
    #[default]
    Dec,
    /// Lower-case hexadecimal without a prefix.
    Hex,
    /// `0-9A-Za-z`, always 11 characters.
    Base62,
    /// Crockford's base 32, upper case, always 13 characters. Parsing accepts both cases, `I` and
    /// `L` as 1, and `O` as 0.
    Crockford,
}

/// The reason why a text or an ID does not fit a form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// There is no form with this name.
    #[error("unknown format {0:?}: dec, hex, b62 or crockford")]
    UnknownFormat(String),
    /// The text does not have the form.
    #[error("{text:?} is not an ID of the format {format}")]
    NotOfFormat {
        /// The text.
        text: String,
        /// The expected form.
        format: IdFormat,
    },
    /// The text denotes a number of more than 64 bits.
    #[error("{text:?} is larger than a 64-bit number")]
    TooLarge {
        /// The text.
        text: String,
    },
    /// The text is wider than the padding allows.
    #[error("{text} does not fit a width of {width}")]
    DoesNotFit {
        /// The unpadded text.
        text: String,
        /// The requested width.
        width: usize,
    },
    /// The width exceeds [`MAX_PAD`].
    #[error("pad is 1 to {MAX_PAD}, not {0}")]
    PadOutOfRange(usize),
    /// The prefix is longer than [`MAX_PREFIX`] or not printable ASCII.
    #[error("id_prefix is up to {MAX_PREFIX} printable ASCII characters")]
    BadPrefix,
}

/// The largest padding width, far above the 20 digits of the largest ID.
pub const MAX_PAD: usize = 64;

/// The longest prefix, in characters.
pub const MAX_PREFIX: usize = 64;

const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// 62^11 is the smallest power of 62 above 2^64.
const BASE62_WIDTH: usize = 11;
/// 13 digits of 5 bits hold 65 bits.
const CROCKFORD_WIDTH: usize = 13;

impl IdFormat {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Dec, Self::Hex, Self::Base62, Self::Crockford];

    /// The name of the form in a query and on a command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dec => "dec",
            Self::Hex => "hex",
            Self::Base62 => "b62",
            Self::Crockford => "crockford",
        }
    }

    /// Returns the text of `id`.
    #[must_use]
    pub fn encode(self, id: u64) -> String {
        match self {
            Self::Dec => id.to_string(),
            Self::Hex => format!("{id:x}"),
            Self::Base62 => digits(id, BASE62, BASE62_WIDTH),
            Self::Crockford => digits(id, CROCKFORD, CROCKFORD_WIDTH),
        }
    }

    /// Parses an ID. Leading zeros are accepted.
    ///
    /// # Errors
    /// The text has a character that the form does not have, or the number exceeds 64 bits.
    pub fn parse(self, text: &str) -> Result<u64, FormatError> {
        let wrong = || FormatError::NotOfFormat {
            text: text.to_owned(),
            format: self,
        };
        let body = match self {
            Self::Hex => text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")),
            _ => None,
        }
        .unwrap_or(text);
        if body.is_empty() {
            return Err(wrong());
        }
        let mut id = 0_u64;
        for byte in body.bytes() {
            let digit = self.digit(byte).ok_or_else(wrong)?;
            id = id
                .checked_mul(self.base())
                .and_then(|id| id.checked_add(digit))
                .ok_or_else(|| FormatError::TooLarge {
                    text: text.to_owned(),
                })?;
        }
        Ok(id)
    }

    const fn base(self) -> u64 {
        match self {
            Self::Dec => 10,
            Self::Hex => 16,
            Self::Base62 => 62,
            Self::Crockford => 32,
        }
    }

    fn digit(self, byte: u8) -> Option<u64> {
        let position = |alphabet: &[u8], byte: u8| {
            alphabet
                .iter()
                .position(|known| *known == byte)
                .map(|at| at as u64)
        };
        match self {
            Self::Dec | Self::Hex => {
                let radix = if self == Self::Hex { 16 } else { 10 };
                char::from(byte).to_digit(radix).map(u64::from)
            }
            Self::Base62 => position(BASE62, byte),
            Self::Crockford => match byte.to_ascii_uppercase() {
                b'O' => Some(0),
                b'I' | b'L' => Some(1),
                upper => position(CROCKFORD, upper),
            },
        }
    }
}

/// Returns the digits of `id`, at least `width` of them, most significant first.
fn digits(mut id: u64, alphabet: &[u8], width: usize) -> String {
    let base = alphabet.len() as u64;
    let mut text = Vec::with_capacity(width);
    while id > 0 || text.len() < width {
        // The remainder is less than the length of the alphabet.
        text.push(char::from(alphabet[(id % base) as usize]));
        id /= base;
    }
    text.iter().rev().collect()
}

impl fmt::Display for IdFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for IdFormat {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        match text {
            "dec" => Ok(Self::Dec),
            "hex" => Ok(Self::Hex),
            "b62" | "base62" => Ok(Self::Base62),
            "crockford" => Ok(Self::Crockford),
            _ => Err(FormatError::UnknownFormat(text.to_owned())),
        }
    }
}

/// The text form of IDs in a response: format, zero padding, and a prefix before both.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdText {
    format: IdFormat,
    pad: Option<usize>,
    prefix: String,
}

impl IdText {
    /// Creates a text form.
    ///
    /// # Errors
    /// The width or the prefix is out of range.
    pub fn new(
        format: IdFormat,
        pad: Option<usize>,
        prefix: Option<&str>,
    ) -> Result<Self, FormatError> {
        if let Some(width) = pad
            && !(1..=MAX_PAD).contains(&width)
        {
            return Err(FormatError::PadOutOfRange(width));
        }
        let prefix = prefix.unwrap_or_default();
        let printable = prefix.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if prefix.len() > MAX_PREFIX || !printable {
            return Err(FormatError::BadPrefix);
        }
        Ok(Self {
            format,
            pad,
            prefix: prefix.to_owned(),
        })
    }

    /// Returns the text of `id`.
    ///
    /// # Errors
    /// The text is wider than the padding.
    pub fn render(&self, id: u64) -> Result<String, FormatError> {
        let text = self.format.encode(id);
        let width = self.pad.unwrap_or(text.len());
        if text.len() > width {
            return Err(FormatError::DoesNotFit { text, width });
        }
        Ok(format!("{}{text:0>width$}", self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: u64 = 117_450_583_018_840_065;

    #[test]
    fn the_published_example_holds() {
        assert_eq!(IdFormat::Base62.encode(EXAMPLE), "08fvLNRpKVt");
        assert_eq!(IdFormat::Crockford.encode(EXAMPLE), "038A4NVBR0801");
        assert_eq!(IdFormat::Dec.encode(EXAMPLE), "117450583018840065");
        assert_eq!(IdFormat::Hex.encode(EXAMPLE), format!("{EXAMPLE:x}"));
    }

    #[test]
    fn every_form_reads_what_it_wrote() {
        for format in IdFormat::ALL {
            for id in [0, 1, 61, 62, EXAMPLE, u64::MAX / 2, u64::MAX] {
                assert_eq!(format.parse(&format.encode(id)), Ok(id), "{format} {id}");
            }
            assert_eq!(format.as_str().parse(), Ok(format));
        }
    }

    #[test]
    fn fixed_widths_sort_as_numbers() {
        let ids = [0, 9, 10, 35, 36, 61, 62, 4000, EXAMPLE, u64::MAX];
        for format in [IdFormat::Base62, IdFormat::Crockford] {
            let texts: Vec<_> = ids.iter().map(|id| format.encode(*id)).collect();
            let mut sorted = texts.clone();
            sorted.sort();
            assert_eq!(texts, sorted);
        }
    }

    #[test]
    fn hostile_texts_are_refused() {
        for format in IdFormat::ALL {
            for text in ["", "+1", "-1", " 1", "1 ", "!", "ü"] {
                assert!(format.parse(text).is_err(), "{format} {text:?}");
            }
            let long = "Z"
                .repeat(4000)
                .replace('Z', if format == IdFormat::Dec { "9" } else { "F" });
            assert!(
                matches!(format.parse(&long), Err(FormatError::TooLarge { .. })),
                "{format}"
            );
        }
        assert_eq!(IdFormat::Crockford.parse("o1il"), Ok(0b00001_00001_00001));
        assert_eq!(IdFormat::Hex.parse("0xFf"), Ok(255));
        assert!("octal".parse::<IdFormat>().is_err());
    }

    #[test]
    fn padding_never_cuts() {
        let text = IdText::new(IdFormat::Dec, Some(20), Some("ord-")).unwrap();
        assert_eq!(text.render(EXAMPLE).unwrap(), "ord-00117450583018840065");
        let narrow = IdText::new(IdFormat::Dec, Some(5), None).unwrap();
        assert_eq!(narrow.render(99_999).unwrap(), "99999");
        assert!(matches!(
            narrow.render(100_000),
            Err(FormatError::DoesNotFit { width: 5, .. })
        ));
        assert!(IdText::new(IdFormat::Dec, Some(0), None).is_err());
        assert!(IdText::new(IdFormat::Dec, Some(65), None).is_err());
        assert!(IdText::new(IdFormat::Dec, None, Some("a\nb")).is_err());
    }
}
