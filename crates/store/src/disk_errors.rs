//! Classifies disk errors: whether the machine causes them, and which file they concern.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::path::Path;

use rustix::io::Errno;

/// An error of the disk with the name of the file or object.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
struct Named {
    what: String,
    #[source]
    error: io::Error,
}

/// Data with a valid checksum that a later version of this program wrote.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Newer(String);

pub fn newer(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, Newer(what.into()))
}

/// Returns whether an error comes from [`newer`]. The kind alone does not suffice: the kernel also
/// returns it for unsupported operations.
pub fn is_newer(error: &io::Error) -> bool {
    causes(error).any(|error| error.get_ref().is_some_and(|cause| cause.is::<Newer>()))
}

/// Returns the chain of I/O errors of an error, beginning with the error itself.
fn causes(error: &io::Error) -> impl Iterator<Item = &io::Error> {
    let first: &(dyn Error + 'static) = error;
    successors(Some(first), |&error| error.source()).filter_map(|error| error.downcast_ref())
}

/// Adds the file to an error.
pub fn in_file(path: &Path, error: io::Error) -> io::Error {
    named(path.display().to_string(), error)
}

/// Adds the name of the object to an error.
pub fn named(what: String, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Named { what, error })
}

/// Returns whether the machine causes an error, and not the file or folder that was read. Its
/// content may be intact, and changing it does not help.
pub fn is_of_the_machine(error: &io::Error) -> bool {
    use io::ErrorKind;
    let kind_says_so = matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::PermissionDenied
            | ErrorKind::OutOfMemory
            // No thread could be started.
            | ErrorKind::WouldBlock
            | ErrorKind::Unsupported
    );
    kind_says_so || is_out_of_handles(error)
}

/// Returns whether the kernel returned the error or one of its causes.
pub fn is_of_the_kernel(error: &io::Error) -> bool {
    causes(error).any(|error| error.raw_os_error().is_some())
}

/// Returns whether the process or the system has too many open files.
pub fn is_out_of_handles(error: &io::Error) -> bool {
    let no_handles = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    // An error with an added name has the error number in its source.
    let mut numbers = causes(error).filter_map(io::Error::raw_os_error);
    numbers.any(|number| no_handles.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_of_a_newer_program_is_distinguished_from_an_unsupported_call() {
        let not_supported = || io::Error::from_raw_os_error(Errno::OPNOTSUPP.raw_os_error());
        assert_eq!(not_supported().kind(), newer("").kind());
        let named = |error| in_file(Path::new("/data/snap/12-3.snap"), error);
        for (error, expected) in [
            (newer("version 2"), true),
            (named(newer("version 2")), true),
            (not_supported(), false),
            (named(not_supported()), false),
        ] {
            assert_eq!(is_newer(&error), expected, "{error}");
        }
    }

    #[test]
    fn an_error_with_a_name_means_what_it_meant_before() {
        for (errno, of_the_machine) in [
            (Errno::IO, false),
            (Errno::NOENT, false),
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::ACCESS, true),
            (Errno::NOMEM, true),
            (Errno::AGAIN, true),
            (Errno::NOSPC, true),
            (Errno::ROFS, true),
        ] {
            let error = || io::Error::from_raw_os_error(errno.raw_os_error());
            let named = in_file(Path::new("/data/snap/12-3.snap"), error());
            assert_eq!(named.kind(), error().kind());
            let expected = format!("/data/snap/12-3.snap: {}", error());
            assert_eq!(named.to_string(), expected);
            assert_eq!(is_of_the_machine(&error()), of_the_machine, "{errno:?}");
            assert_eq!(is_of_the_machine(&named), of_the_machine, "{named}");
        }
    }
}
