//! Guards that tests remove one by one, to show that some test detects each missing guard.
//!
//! A guard is a line that an invariant depends on. The code evaluates [`is_out!`](crate::is_out) at
//! that line. In a shipped program it is the constant `false`, and no code is generated for it. Two
//! builds evaluate it:
//!
//! - In the unit tests of the crate that contains the guard, [`take_out`] removes it for one
//!   thread.
//! - In a build with `--cfg seqd_bugs`, the variable `SEQD_GUARD_OUT` removes it for the whole
//!   process.
//!
//! `docs/internals/GUARDS.md` lists the test that detects each missing guard.

mod list;

pub use list::Guard;

/// The environment variable with the name of the guard that a build with `--cfg seqd_bugs` removes.
pub const VARIABLE: &str = "SEQD_GUARD_OUT";

/// Returns whether a guard, named without its type, is removed.
#[macro_export]
macro_rules! is_out {
    ($guard:ident) => {
        ::core::cfg!(any(test, seqd_bugs)) && $crate::is_out_here($crate::Guard::$guard)
    };
}

thread_local! {
    static OUT: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) };
}

/// Removes a guard for this thread, or restores it.
pub fn take_out(guard: Option<Guard>) {
    OUT.set(guard);
}

/// Returns whether the guard is removed for this thread or for the process. Call it only through
/// `is_out!`.
#[must_use]
pub fn is_out_here(guard: Guard) -> bool {
    OUT.get() == Some(guard) || out_of_the_process() == Some(guard)
}

#[cfg(not(seqd_bugs))]
const fn out_of_the_process() -> Option<Guard> {
    None
}

/// Read once. An unknown name ends the process, because a run without a removed guard would prove
/// nothing.
#[cfg(seqd_bugs)]
fn out_of_the_process() -> Option<Guard> {
    static NAMED: std::sync::OnceLock<Option<Guard>> = std::sync::OnceLock::new();
    *NAMED.get_or_init(|| {
        let name = std::env::var(VARIABLE).ok()?;
        let guard = Guard::named(&name);
        Some(guard.unwrap_or_else(|| panic!("{VARIABLE}={name}: there is no such guard")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_out_of_the_thread_that_took_it_out_until_it_is_put_back() {
        assert!(!is_out!(VoteSynced));
        take_out(Some(Guard::VoteSynced));
        assert!(is_out!(VoteSynced) && !is_out!(EntriesSynced));
        let elsewhere = std::thread::spawn(|| is_out!(VoteSynced));
        assert_eq!(elsewhere.join().ok(), Some(false));
        take_out(None);
        assert!(!is_out!(VoteSynced));
    }

    #[test]
    fn each_guard_has_a_name_of_its_own() {
        for guard in Guard::ALL {
            assert_eq!(Guard::named(guard.name()), Some(*guard));
        }
        assert_eq!(Guard::named("NoSuchGuard"), None);
    }
}
