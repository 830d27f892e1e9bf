//! A progress bar, shown only on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The template of the bar. If it does not parse, the default template is used.
const LOOK: &str = "{bar:30} {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left";

/// The template of the bar of a number of items.
const ITEMS_LOOK: &str = "{bar:30} {pos}/{len}  {eta} left";

/// The template of the bar of a time.
const TIME_LOOK: &str = "{bar:30} {elapsed}  {msg}";

/// The interval of automatic redraws.
const TICK: Duration = Duration::from_millis(200);

/// A progress bar over a known number of bytes or items, or over a time. Dropping it clears it.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar on stderr, if stderr is a terminal and `--quiet` is not set.
    pub(crate) fn new(bytes: u64, quiet: bool) -> Progress {
        Self::of(bytes, quiet, LOOK)
    }

    /// The same for a time in milliseconds, or for parts of a whole.
    pub(crate) fn of_time(ms: u64, quiet: bool) -> Progress {
        Self::of(ms, quiet, TIME_LOOK)
    }

    /// The same for a number of items.
    pub(crate) fn of_items(items: u64, quiet: bool) -> Progress {
        Self::of(items, quiet, ITEMS_LOOK)
    }

    fn of(length: u64, quiet: bool, look: &str) -> Progress {
        let target = if quiet {
            ProgressDrawTarget::hidden()
        } else {
            // The draw target hides itself if stderr is not a terminal.
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        if let Ok(style) = ProgressStyle::with_template(look) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Progress(bar)
    }

    /// Sets the number of bytes, items or milliseconds that are done.
    pub(crate) fn at(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Returns whether nothing is drawn.
    pub(crate) fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    /// Sets the words next to the bar.
    pub(crate) fn words(&self, words: String) {
        self.0.set_message(words);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
