//! A value from a file: read at the start, and again while the node runs. If the file cannot be
//! used, the value in force remains.

use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use seqd_api::TokenError;
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which the file is read again. A replaced token is rejected about a second later.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Read<T> = fn(&Path) -> Result<T, TokenError>;

#[derive(Debug)]
pub(super) struct Reread<T> {
    path: PathBuf,
    read: Read<T>,
    in_force: RwLock<T>,
}

impl<T: PartialEq + Send + 'static> Reread<T> {
    /// `value` is in force until `read` returns another one.
    pub(super) fn new(path: PathBuf, read: Read<T>, value: T) -> Self {
        Self {
            path,
            read,
            in_force: RwLock::new(value),
        }
    }

    pub(super) fn in_force(&self) -> RwLockReadGuard<'_, T> {
        self.in_force.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rereads the file periodically. Calls `tell` for each new value, and once for each reason why
    /// the file cannot be used.
    pub(super) async fn keep_fresh(&self, tell: fn(Result<(), &TokenError>)) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = None;
        loop {
            ticks.tick().await;
            let (path, read) = (self.path.clone(), self.read);
            let Ok(found) = tokio::task::spawn_blocking(move || read(&path)).await else {
                continue;
            };
            match found {
                Ok(found) => {
                    last = None;
                    if self.replace(found) {
                        tell(Ok(()));
                    }
                }
                Err(error) => {
                    if last.as_ref() != Some(&error) {
                        tell(Err(&error));
                    }
                    last = Some(error);
                }
            }
        }
    }

    /// Puts a value in force. Returns whether it differs from the previous one.
    fn replace(&self, found: T) -> bool {
        let in_force = self.in_force.write();
        let mut in_force = in_force.unwrap_or_else(PoisonError::into_inner);
        let is_new = *in_force != found;
        *in_force = found;
        is_new
    }
}
