//! How far a clock is trusted: the `clock` settings that the generator and the guard share.

/// What a generator does when the clock stands behind its last tick by more than it would wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnRollback {
    /// Refuse until the clock has caught up.
    #[default]
    Refuse,
    /// Go on from the last tick in logical time, whatever the size of the step, inside the window
    /// only. For a generator that has minted; at a start the guard refuses as ever.
    Continue,
}

/// Limits on the wall clock. `default()` gives the configuration's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockPolicy {
    /// A clock that is behind by up to this many milliseconds is waited for.
    pub max_backward_wait_ms: u64,
    /// What to do when it is behind by more.
    pub on_rollback: OnRollback,
    /// How far the wall clock may run ahead of the monotonic clock between two readings, in
    /// milliseconds, before the reading needs confirmation.
    pub max_forward_jump_ms: u64,
}

impl Default for ClockPolicy {
    fn default() -> Self {
        Self {
            max_backward_wait_ms: 50,
            on_rollback: OnRollback::Refuse,
            max_forward_jump_ms: 1000,
        }
    }
}
