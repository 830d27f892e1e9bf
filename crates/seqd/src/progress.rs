//! A bar on a terminal, and nothing anywhere else.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How the bar looks. A template that does not parse would cost the bar, nothing else.
const LOOK: &str = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";

/// How often it moves by itself.
const TICK: Duration = Duration::from_millis(200);

/// A bar over a known number of bytes; it goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar on stderr, if that is a terminal; not with `--quiet`.
    pub(crate) fn new(bytes: u64, quiet: bool) -> Progress {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            // Hidden by itself where stderr is no terminal.
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(bytes), target);
        if let Ok(style) = ProgressStyle::with_template(LOOK) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Progress(bar)
    }

    /// So many bytes are done.
    pub(crate) fn at(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
