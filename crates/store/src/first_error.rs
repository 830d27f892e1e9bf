//! The first of several errors: the one that says what happened, where the later ones only follow
//! from it.

use std::io;

/// Whether something failed, and how at first.
#[derive(Debug, Default)]
pub struct FirstError(Option<(io::ErrorKind, String)>);

impl FirstError {
    /// Keeps what failed, unless something did before.
    pub fn note<T>(&mut self, done: &io::Result<T>) {
        if let Err(error) = done {
            self.0
                .get_or_insert_with(|| (error.kind(), error.to_string()));
        }
    }

    /// Tells it, every time.
    pub fn check(&self) -> io::Result<()> {
        match &self.0 {
            Some((kind, why)) => Err(io::Error::new(*kind, why.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_the_one_that_is_told() {
        let mut lost = FirstError::default();
        lost.note(&Ok(()));
        lost.check().unwrap();
        let full = io::Error::from_raw_os_error(28);
        let said = full.to_string();
        lost.note::<()>(&Err(full));
        lost.note::<()>(&Err(io::Error::other("and so nothing works any more")));
        for _ in 0..2 {
            let told = lost.check().unwrap_err();
            assert_eq!(told.kind(), io::ErrorKind::StorageFull);
            assert_eq!(told.to_string(), said);
        }
    }
}
