//! Keys on a terminal: read one by one without Enter, the terminal as it was afterwards.
//!
//! Only input is changed, so that lines still end as lines and Ctrl-C is still a signal. Without a
//! terminal, or in the background of one, there are no keys, and the end of stdin means nothing.

use std::io::{self, IsTerminal as _, Read as _};

use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};
use tokio::sync::mpsc;

use crate::demo::event::Event;

/// The terminal while keys are read; dropping it puts everything back.
pub(crate) struct Keys {
    before: Termios,
}

impl Keys {
    /// Sends each key from here on; `None` without a terminal.
    pub(crate) fn open(events: mpsc::Sender<Event>) -> Option<Self> {
        let stdin = io::stdin();
        if !(stdin.is_terminal() && io::stdout().is_terminal()) {
            return None;
        }
        // A background process that touches the terminal is stopped by it.
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
        // A terminal that has gone needs nothing put back.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
