//! Errors of the disk: whether they are of the machine, and of which file.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::path::Path;

use rustix::io::Errno;

/// An error of the disk under the name of what was read.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {error}")]
struct Named {
    what: String,
    #[source]
    error: io::Error,
}

/// What a later version of this program wrote, by a checksum that is right.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Newer(String);

pub fn newer(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, Newer(what.into()))
}

/// Whether an error is one of [`newer`]: the kernel also calls things unsupported.
pub fn is_newer(error: &io::Error) -> bool {
    causes(error).any(|error| error.get_ref().is_some_and(|cause| cause.is::<Newer>()))
}

/// The I/O errors that an error is made of, itself first.
fn causes(error: &io::Error) -> impl Iterator<Item = &io::Error> {
    let first: &(dyn Error + 'static) = error;
    successors(Some(first), |&error| error.source()).filter_map(|error| error.downcast_ref())
}

/// The same error, with the file.
pub fn in_file(path: &Path, error: io::Error) -> io::Error {
    named(path.display().to_string(), error)
}

/// The same error, with what it is of.
pub fn named(what: String, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Named { what, error })
}

/// Whether an error is of the machine and not of the file or folder that was read:
/// what is there may be whole, and nothing that is done to it helps.
pub fn is_of_the_machine(error: &io::Error) -> bool {
    use io::ErrorKind;
    let kind_says_so = matches!(
        error.kind(),
        ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::PermissionDenied
            | ErrorKind::OutOfMemory
            | ErrorKind::Unsupported
    );
    kind_says_so || is_out_of_handles(error)
}

/// Whether the kernel returned an error, or a part of one.
pub fn is_of_the_kernel(error: &io::Error) -> bool {
    causes(error).any(|error| error.raw_os_error().is_some())
}

/// Whether the process or the system has too many files open.
pub fn is_out_of_handles(error: &io::Error) -> bool {
    let no_handles = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    // The number of an error that has a name is that of the one below it.
    let mut numbers = causes(error).filter_map(io::Error::raw_os_error);
    numbers.any(|number| no_handles.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newer_program_wrote_is_distinguished_from_what_the_kernel_does_not_do() {
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
