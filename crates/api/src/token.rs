//! Bearer tokens, and the files that contain them.

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

/// The least length of a token. A shorter token could be guessed: 32 hexadecimal digits are 128
/// bits.
const MIN_LENGTH: usize = 32;

/// The greatest length of a token. It permits tokens of other systems, and is far below the limit
/// for the head of a request.
const MAX_LENGTH: usize = 512;

/// The longest file: a token and a line end.
const MAX_FILE_BYTES: u64 = MAX_LENGTH as u64 + 2;

/// The mode bits that let users other than the owner access the file.
#[cfg(unix)]
const OTHERS: u32 = 0o077;

/// The bit that may be set in a file of root. A service that runs as another user reads its token
/// through its group, or through an access control list, which systemd's `LoadCredential` sets and
/// which appears in the group bits.
#[cfg(unix)]
const READ_BY_GROUP: u32 = 0o040;

/// A secret that authenticates a request. It is written only into the header, and its `Debug`
/// output does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The reason why a token or its file cannot be used. It contains no part of the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct TokenError {
    detail: String,
    is_missing: bool,
}

impl Token {
    /// Parses a token: 32 to 512 characters: `A-Z a-z 0-9 - . _ ~ + /`, and `=` only at the end
    /// (RFC 6750).
    ///
    /// # Errors
    /// The rule for tokens.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
        let is_fit = (MIN_LENGTH..=MAX_LENGTH).contains(&text.len())
            && text.bytes().next().is_some_and(plain)
            && text.trim_end_matches('=').bytes().all(plain);
        if is_fit {
            return Ok(Self(text.to_owned()));
        }
        Err(TokenError::new(format!(
            "a token has {MIN_LENGTH} to {MAX_LENGTH} of A-Z a-z 0-9 - . _ ~ + / and = at its end: \
             `openssl rand -hex 32` makes one"
        )))
    }

    /// Reads a token from a file, which must contain nothing else and be accessible only to its
    /// owner, and to its group for reading if the owner is root.
    ///
    /// # Errors
    /// The file cannot be read, other users can access it, or it does not contain a valid token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let text = read_private(path, MAX_FILE_BYTES)?;
        let shown = path.display();
        let line = text.strip_suffix('\n').unwrap_or(&text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        Self::parse(line).map_err(|error| TokenError::new(format!("{shown} has no token: {error}")))
    }

    /// Returns the token itself. Use it only for the header.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }
}

/// Reads the text of a file with secrets, up to one byte more than `most_bytes`.
///
/// # Errors
/// The file cannot be read, other users can access it, or its text is not UTF-8.
pub fn read_private(path: &Path, most_bytes: u64) -> Result<String, TokenError> {
    let shown = path.display();
    let failed = |error: std::io::Error| {
        let text = error.to_string();
        let reason = text.split(" (os error").next().unwrap_or_default();
        TokenError {
            is_missing: error.kind() == ErrorKind::NotFound,
            ..TokenError::new(format!("cannot read {shown}: {}", reason.to_lowercase()))
        }
    };
    // Checked before the file is opened, because opening a named pipe would block until it has a
    // writer.
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(TokenError::new(format!("{shown} is not a file")));
    }
    let file = File::open(path).map_err(failed)?;
    check_private(&file.metadata().map_err(failed)?, path)?;
    let mut bytes = Vec::new();
    let read = file.take(most_bytes + 1).read_to_end(&mut bytes);
    read.map_err(failed)?;
    String::from_utf8(bytes).map_err(|_| TokenError::of_file(path, "the text is not UTF-8"))
}

impl TokenError {
    fn new(detail: String) -> Self {
        Self {
            detail,
            is_missing: false,
        }
    }

    /// Returns whether there is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing
    }

    /// An error in the contents of a file. `why` contains no part of a token.
    #[must_use]
    pub fn of_file(path: &Path, why: &str) -> Self {
        Self::new(format!("{}: {why}", path.display()))
    }
}

#[cfg(unix)]
fn check_private(known: &std::fs::Metadata, path: &Path) -> Result<(), TokenError> {
    use std::os::unix::fs::MetadataExt as _;

    let (mode, shown) = (known.mode() & 0o777, path.display());
    if is_private(mode, known.uid()) {
        return Ok(());
    }
    Err(TokenError::new(format!(
        "{shown} contains a token and other users can access it (mode {mode:04o}): chmod 0600 \
         {shown}"
    )))
}

#[cfg(unix)]
fn is_private(mode: u32, owner: u32) -> bool {
    let allowed = if owner == 0 { READ_BY_GROUP } else { 0 };
    mode & OTHERS & !allowed == 0
}

/// Other systems do not have such modes.
#[cfg(not(unix))]
fn check_private(_known: &std::fs::Metadata, _path: &Path) -> Result<(), TokenError> {
    Ok(())
}

impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Token(..)")
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const TEXT: &str = "0123456789abcdef-._~+/0123456789==";

    #[test]
    fn a_token_is_long_and_plain() {
        let read = Token::parse(TEXT);
        assert_eq!(read.as_ref().map(Token::secret), Ok(TEXT));
        assert_eq!(format!("{read:?}"), "Ok(Token(..))");
        let long = "a".repeat(MAX_LENGTH + 1);
        let unfit = [
            "",
            &TEXT[..MIN_LENGTH - 1],
            &long,
            "0123456789abcdef 0123456789abcdef",
            "0123456789abcdef=0123456789abcdef",
            "0123456789abcdefé0123456789abcdef",
            "================================",
        ];
        for text in unfit {
            let error = Token::parse(text).unwrap_err().to_string();
            assert!(error.contains("32 to 512"), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_group_may_read_a_token_s_file_only_if_the_file_is_root_s() {
        assert!(is_private(0o440, 0) && is_private(0o640, 0) && is_private(0o600, 1000));
        assert!(!is_private(0o640, 1000) && !is_private(0o460, 0) && !is_private(0o444, 0));
    }

    #[test]
    fn a_token_s_file_is_its_owner_s_alone_and_holds_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str, mode: u32| {
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            Token::read(&path).map_err(|error| error.to_string())
        };
        assert_eq!(read(&format!("{TEXT}\n"), 0o600).unwrap().secret(), TEXT);
        assert_eq!(read(&format!("{TEXT}\r\n"), 0o400).unwrap().secret(), TEXT);
        for mode in [0o644, 0o660, 0o602] {
            let error = read(TEXT, mode).unwrap_err();
            assert!(error.contains("chmod 0600"), "{error}");
            assert!(!error.contains(TEXT), "{error}");
        }
        for text in [format!("{TEXT}\n{TEXT}\n"), "x".repeat(4096), String::new()] {
            let error = read(&text, 0o600).unwrap_err();
            assert!(error.contains("has no token"), "{error}");
            assert!(!error.contains(TEXT), "{error}");
        }
        write(&path, b"\xff\xfe").unwrap();
        let binary = Token::read(&path).unwrap_err().to_string();
        assert!(binary.ends_with("is not UTF-8"), "{binary}");
        let folder = Token::read(folder.path()).unwrap_err().to_string();
        assert!(folder.ends_with("is not a file"), "{folder}");
        let missing = Token::read(&path.with_extension("x")).unwrap_err();
        assert!(missing.to_string().contains("no such file"), "{missing}");
    }
}
