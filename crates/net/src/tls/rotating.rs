//! Material in force, and new files in its place while connections go on.
//!
//! Invariants:
//! - What is in force was checked as a whole; files that do not fit leave it as it is.
//! - A connection keeps what it began with.

use std::sync::{Mutex, PoisonError, RwLock};

use crate::tls::certificate::{Certificate, Validity};
use crate::tls::error::TlsError;
use crate::tls::material::{Contents, Files, Material};

/// How connections are set up with what was read.
type Build<T> = Box<dyn Fn(&Material) -> Result<T, TlsError> + Send + Sync>;

/// What another look at the files has shown.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing to tell.
    Same,
    /// New connections use new files; the certificate among them.
    Taken(Certificate),
    /// The files changed and cannot be used: what was in force stays. Returned once for each change.
    Refused(TlsError),
}

/// Material in force.
pub struct Rotating<T> {
    files: Files,
    build: Build<T>,
    in_force: RwLock<(T, Validity)>,
    seen: Mutex<Seen>,
}

/// What the last looks found.
struct Seen {
    in_force: Contents,
    /// What could not be used, and whether it was told.
    unfit: Option<(Result<Contents, TlsError>, bool)>,
}

impl<T: Clone> Rotating<T> {
    /// Reads the files, and sets up what they are for.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn load(
        files: Files,
        now: i64,
        build: impl Fn(&Material) -> Result<T, TlsError> + Send + Sync + 'static,
    ) -> Result<Self, TlsError> {
        let contents = files.contents()?;
        let material = Material::of(&files, &contents, now)?;
        let built = build(&material)?;
        Ok(Self {
            files,
            build: Box::new(build),
            in_force: RwLock::new((built, material.leaf.validity)),
            seen: Mutex::new(Seen {
                in_force: contents,
                unfit: None,
            }),
        })
    }

    /// What a new connection is set up with.
    pub fn get(&self) -> T {
        let in_force = self.in_force.read();
        in_force.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// How long the certificate in force counts.
    pub fn validity(&self) -> Validity {
        let in_force = self.in_force.read();
        in_force.unwrap_or_else(PoisonError::into_inner).1
    }

    /// Reads the files again. What cannot be used is told at the second look that finds it: between
    /// two of the files that somebody copies they do not fit.
    pub fn look(&self, now: i64) -> Look {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let contents = self.files.contents();
        if contents.as_ref() == Ok(&seen.in_force) {
            seen.unfit = None;
            return Look::Same;
        }
        let error = match &contents {
            Ok(found) => match self.built(found, now) {
                Ok((built, leaf)) => {
                    let mut in_force = self
                        .in_force
                        .write()
                        .unwrap_or_else(PoisonError::into_inner);
                    *in_force = (built, leaf.validity);
                    seen.in_force = found.clone();
                    seen.unfit = None;
                    return Look::Taken(leaf);
                }
                Err(error) => error,
            },
            Err(error) => error.clone(),
        };
        match &mut seen.unfit {
            Some((before, true)) if *before == contents => Look::Same,
            Some((before, told)) if *before == contents => {
                *told = true;
                Look::Refused(error)
            }
            _ => {
                seen.unfit = Some((contents, false));
                Look::Same
            }
        }
    }

    fn built(&self, contents: &Contents, now: i64) -> Result<(T, Certificate), TlsError> {
        let material = Material::of(&self.files, contents, now)?;
        Ok(((self.build)(&material)?, material.leaf))
    }
}

impl<T> std::fmt::Debug for Rotating<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Rotating")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}
