//! Keeps the first of several errors: it has the cause, and later errors are only its consequences.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct FirstError(Option<Arc<io::Error>>);

/// A further copy of the error with the same kind, text and error number.
#[derive(Debug)]
struct Again(Arc<io::Error>);

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Again {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

impl FirstError {
    /// Returns the result, and keeps its error unless there was an earlier one.
    pub fn note<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.map_err(|error| {
            let error = Arc::new(error);
            self.0.get_or_insert_with(|| Arc::clone(&error));
            io::Error::new(error.kind(), Again(error))
        })
    }

    pub fn check(&self) -> io::Result<()> {
        match &self.0 {
            Some(error) => Err(io::Error::new(error.kind(), Again(Arc::clone(error)))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk_errors::is_of_the_kernel;

    #[test]
    fn the_first_error_is_the_one_that_is_reported() {
        let mut lost = FirstError::default();
        lost.note(Ok(())).unwrap();
        lost.check().unwrap();
        let full = io::Error::from_raw_os_error(28);
        let text = full.to_string();
        assert_eq!(lost.note::<()>(Err(full)).unwrap_err().to_string(), text);
        let later = lost.note::<()>(Err(io::Error::other("and so nothing works any more")));
        assert!(later.is_err());
        for _ in 0..2 {
            let error = lost.check().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert_eq!(error.to_string(), text);
            assert!(is_of_the_kernel(&error));
        }
    }
}
