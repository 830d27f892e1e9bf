//! Reads keys from a terminal one by one, without Enter, and restores the terminal afterwards.
//!
//! Only the input mode changes, so output lines still end correctly and Ctrl-C is still a signal.
//! Without a terminal, or in the background of one, no keys are read, and the end of stdin has no
//! effect.

use std::io::{self, IsTerminal as _, Read as _};

use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use tokio::sync::mpsc;

use crate::demo::event::Event;

/// The terminal while keys are read. Dropping it restores the previous mode.
pub(crate) struct Keys {
    before: Termios,
}

impl Keys {
    /// Sends each key from this call on. Returns `None` without a terminal.
    pub(crate) fn open(events: mpsc::Sender<Event>) -> Option<Self> {
        let stdin = io::stdin();
        if !(stdin.is_terminal() && io::stdout().is_terminal()) {
            return None;
        }
        // The terminal stops a background process that changes it.
        if tcgetpgrp(&stdin).ok()? != getpgrp() {
            return None;
        }
        let before = tcgetattr(&stdin).ok()?;
        let mut during = before.clone();
        during
            .local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO);
        during.special_codes[SpecialCodeIndex::VMIN] = 1;
        during.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&stdin, OptionalActions::Now, &during).ok()?;
        std::thread::spawn(move || {
            let mut key = [0_u8];
            while matches!(io::stdin().read(&mut key), Ok(1)) {
                if events.blocking_send(Event::Key(key[0])).is_err() {
                    break;
                }
            }
        });
        Some(Self { before })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // It fails only if the terminal is closed, and then there is nothing to restore.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
