//! The certificates in use. New files replace them without a restart.
//!
//! Invariants:
//! - Certificates come into use only after all files were checked together. Inconsistent files
//!   change nothing.
//! - A connection keeps the certificates that it began with.

use std::sync::{Mutex, PoisonError, RwLock};

use crate::tls::certificate::{Certificate, Validity};
use crate::tls::error::TlsError;
use crate::tls::material::{Contents, Files, Material};

/// Builds the configuration of connections from the files.
type Build<T> = Box<dyn Fn(&Material) -> Result<T, TlsError> + Send + Sync>;

/// The result of reading the files again.
#[derive(Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing to report.
    Same,
    /// New connections use the new files, with this certificate.
    Taken(Certificate),
    /// The changed files cannot be used, and the old ones stay in use. Returned once for each
    /// change.
    Refused(TlsError),
}

/// The certificates in use.
pub struct Rotating<T> {
    files: Files,
    build: Build<T>,
    in_force: RwLock<(T, Validity)>,
    seen: Mutex<LastReads>,
}

/// The results of the last reads.
struct LastReads {
    in_force: Contents,
    /// Files that could not be used, and whether that was reported.
    unfit: Option<(Result<Contents, TlsError>, bool)>,
}

impl<T: Clone> Rotating<T> {
    /// Reads the files and builds the configuration.
    ///
    /// # Errors
    /// The files cannot be used.
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
            seen: Mutex::new(LastReads {
                in_force: contents,
                unfit: None,
            }),
        })
    }

    /// Returns the configuration of new connections.
    pub fn get(&self) -> T {
        let in_force = self.in_force.read();
        in_force.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Returns the validity of the certificate in use.
    pub fn validity(&self) -> Validity {
        let in_force = self.in_force.read();
        in_force.unwrap_or_else(PoisonError::into_inner).1
    }

    /// Reads the files again. Unusable files are reported when a second read finds the same
    /// content: while an operator copies several files, they are inconsistent.
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
            Some((before, is_reported)) if *before == contents => {
                *is_reported = true;
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
