//! Guards that tests take out, one by one, to show that each is missed when it is gone.
//!
//! A guard is a line that an invariant rests on. Where it stands, the code asks
//! [`is_out!`](crate::is_out): in a program that is shipped that is the word `false`, and nothing of
//! it is compiled. Two builds ask in earnest: the unit tests of the crate that holds the guard, where
//! [`take_out`] takes it out of one thread, and everything that is built with `--cfg seqd_bugs`, where
//! the variable `SEQD_GUARD_OUT` takes it out of the whole process. Which test misses which guard:
//! `docs/internals/GUARDS.md`.

mod list;

pub use list::Guard;

/// Names the guard that a build with `--cfg seqd_bugs` does without.
pub const VARIABLE: &str = "SEQD_GUARD_OUT";

/// Whether a guard, named without its type, is taken out.
#[macro_export]
macro_rules! is_out {
    ($guard:ident) => {
        ::core::cfg!(any(test, seqd_bugs)) && $crate::is_out_here($crate::Guard::$guard)
    };
}

thread_local! {
    static OUT: std::cell::Cell<Option<Guard>> = const { std::cell::Cell::new(None) };
}

/// Takes a guard out of everything on this thread, or puts it back.
pub fn take_out(guard: Option<Guard>) {
    OUT.set(guard);
}

/// Whether the guard is taken out of this thread or of the process. Called through `is_out!` alone.
#[must_use]
pub fn is_out_here(guard: Guard) -> bool {
    OUT.get() == Some(guard) || out_of_the_process() == Some(guard)
}

#[cfg(not(seqd_bugs))]
const fn out_of_the_process() -> Option<Guard> {
    None
}

/// Read once. A name that no guard has ends the process: a run that lacks nothing would show nothing.
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
