//! The tolerances for a clock: the `clock` settings that the generator and the guard share.

/// The action of a generator when the clock is behind its last tick by more than the tolerated
/// wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnRollback {
    /// Refuse until the clock has caught up.
    #[default]
    Refuse,
    /// Continue from the last tick in logical time, whatever the size of the step, but only within
    /// the window. This applies to a generator that has minted. After a start, the guard still
    /// refuses.
    Continue,
}

/// Limits on the wall clock. `default()` returns the defaults of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClockPolicy {
    /// The largest rollback, in milliseconds, that is waited out.
    pub max_backward_wait_ms: u64,
    /// The action after a larger rollback.
    pub on_rollback: OnRollback,
    /// The time by which the wall clock may run ahead of the monotonic clock between two readings,
    /// in milliseconds, before the reading needs confirmation.
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
