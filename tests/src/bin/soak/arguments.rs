//! The command line of the soak binary: a command, then `--name VALUE` pairs and `--name` flags.

use std::str::FromStr;

use seqd_tests::seed::Random;

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

    /// The number after `name`, which is the only option, else `default`.
    pub(crate) fn number(&self, name: &str, default: u64) -> u64 {
        self.allow(name);
        self.value(name, default)
    }

    /// Fails if an option was given that is not among these words.
    pub(crate) fn allow(&self, names: &str) {
        let is_known = |option: &String| names.split(' ').any(|name| name == option);
        let mut options = self.rest.iter().filter(|word| word.starts_with("--"));
        let unknown = options.find(|option| !is_known(option));
        assert!(
            unknown.is_none(),
            "{unknown:?} is not understood; {names} are"
        );
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let at = self.rest.iter().position(|word| word == name)?;
        let value = self.rest.get(at + 1);
        Some(value.unwrap_or_else(|| panic!("{name} needs a value")))
    }

    /// The number after `name`, one of several options, else `default`.
    pub(crate) fn value<T: FromStr>(&self, name: &str, default: T) -> T {
        let Some(text) = self.text(name) else {
            return default;
        };
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{name} {text} is not a number"))
    }

    /// The generator of the seed after `--seed`, else of a new seed, which is printed.
    pub(crate) fn random(&self, run: &str) -> Random {
        match self.text("--seed") {
            Some(_) => Random::seeded(self.value("--seed", 0)),
            None => Random::of_this_run(run),
        }
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.rest.iter().any(|word| word == name)
    }
}
