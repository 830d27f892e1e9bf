//! A flag and an environment variable for every configuration key, built from the node's table of
//! keys.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};
use seqd_node::config::keys::{KEYS, Key, Kind};
use seqd_node::config::{Layers, Origin};

/// The keys that were given as flags or variables.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigFlags(Vec<(&'static Key, Origin, String)>);

impl ConfigFlags {
    /// The defaults, overridden by the given flags and variables.
    pub(crate) fn layers(&self) -> Layers {
        let mut layers = Layers::default();
        for (key, origin, text) in self.0.iter().cloned() {
            layers.set(key, origin, text);
        }
        layers
    }
}

impl Args for ConfigFlags {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().fold(command, |command, key| {
            let help = match key.default {
                Some(default) if !default.is_empty() => {
                    format!("{} [default: {default}]", key.help)
                }
                _ => key.help.to_owned(),
            };
            let arg = Arg::new(key.name)
                .long(key.flag())
                .env(key.variable())
                .value_name("VALUE")
                .help(help)
                .help_heading("Configuration keys");
            let arg = match key.kind {
                Kind::Switch => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true"),
                _ => arg,
            };
            command.arg(match key.name {
                // Users type this list by hand more often than any other.
                "peer.peers" => arg.visible_alias("peers"),
                _ => arg,
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |key: &'static Key| {
            let origin = match matches.value_source(key.name)? {
                ValueSource::CommandLine => Origin::Flag(key.flag()),
                ValueSource::EnvVariable => Origin::Variable(key.variable()),
                _ => return None,
            };
            let text = matches.get_one::<String>(key.name)?;
            Some((key, origin, text.clone()))
        };
        Ok(Self(KEYS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
