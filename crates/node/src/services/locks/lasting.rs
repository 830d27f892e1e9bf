//! Linearizable reads for answers that state whether a lock is held.

use std::time::Duration;

use seqd_guards::is_out;
use seqd_state::{ClusterMs, State};
use tokio::time::{Instant, sleep};

use super::LockService;
use crate::replica::{ReadTime, peek};
use crate::services::error::{ServiceError, read};

/// The first and the longest pause before another read if a hold is about to end. The leader
/// proposes an entry at the end of each hold.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

impl LockService {
    /// A linearizable read after which this node's state contains only holds that lasted at the time
    /// of the read. `first_end` returns the earliest end of the holds that matter.
    ///
    /// A hold has ended only once an entry has ended it: the clock of a read is in no entry, and
    /// the clock of the next leader may be earlier.
    pub(crate) async fn read_lasting(
        &self,
        first_end: impl Fn(&State) -> Option<ClusterMs>,
        deadline: Instant,
    ) -> Result<ReadTime, ServiceError> {
        let mut pause = PAUSE;
        loop {
            let time = read(&*self.replica, deadline).await?;
            let end = peek(&*self.replica, &first_end).flatten();
            if end.is_none_or(|end| time.is_before(end)) || is_out!(HoldEndedByEntry) {
                return Ok(time);
            }
            sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Like [`Self::read_lasting`], for the holds of one lock.
    pub(super) async fn read_lock(
        &self,
        name: &str,
        deadline: Instant,
    ) -> Result<ReadTime, ServiceError> {
        let first_end = |state: &State| {
            let ends = state.lock(name)?.holders().map(|holder| holder.until);
            ends.min()
        };
        self.read_lasting(first_end, deadline).await
    }
}
