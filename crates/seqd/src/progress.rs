//! A progress bar, shown only on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The template of the bar. If it does not parse, the default template is used.
const LOOK: &str = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";

/// The interval of automatic redraws.
const TICK: Duration = Duration::from_millis(200);

/// A progress bar over a known number of bytes. Dropping it clears it.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar on stderr, if stderr is a terminal and `--quiet` is not set.
    pub(crate) fn new(bytes: u64, quiet: bool) -> Progress {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            // The draw target hides itself if stderr is not a terminal.
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

    /// Sets the number of bytes that are done.
    pub(crate) fn at(&self, bytes: u64) {
        self.0.set_position(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
