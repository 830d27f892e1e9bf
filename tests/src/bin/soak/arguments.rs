//! The command line of the soak binary: a command, then `--name NUMBER` pairs.

/// What was given.
pub(crate) struct Arguments {
    rest: Vec<String>,
}

impl Arguments {
    pub(crate) fn from_environment() -> Self {
        Self {
            rest: std::env::args().skip(1).collect(),
        }
    }

    /// The command; empty if there is none.
    pub(crate) fn command(&mut self) -> String {
        if self.rest.is_empty() {
            String::new()
        } else {
            self.rest.remove(0)
        }
    }

    /// The number after `name`, else `default`.
    ///
    /// # Panics
    /// If what follows is no number, or if anything else was given.
    pub(crate) fn number(&self, name: &str, default: u64) -> u64 {
        match self.rest.as_slice() {
            [] => default,
            [given, value] if given == name => value.parse().expect("a number"),
            other => panic!("{other:?} is not understood; {name} NUMBER is"),
        }
    }
}
