//! Every configuration key as a flag and a variable, from the node's own table of keys.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};
use seqd_node::config::keys::KEYS;

/// The keys that were given as flags; variables are shown in the help and read by the node's own
/// merge, which keeps their origin.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigFlags {
    /// Key name such as `http.listen`, and the text that was given.
    pub(crate) given: Vec<(String, String)>,
}

impl Args for ConfigFlags {
    fn augment_args(command: Command) -> Command {
        KEYS.iter().fold(command, |command, key| {
            let mut arg = Arg::new(key.name)
                .long(key.flag())
                .env(key.variable())
                .value_name("VALUE")
                .help(match key.default {
                    Some(default) if !default.is_empty() => {
                        format!("{} ({default} where nothing is said)", key.help)
                    }
                    _ => key.help.to_owned(),
                })
                .help_heading("Configuration keys");
            arg = match key.name {
                // Founding lists are typed by hand more often than any other list.
                "peer.peers" => arg.visible_alias("peers"),
                _ => arg,
            };
            command.arg(arg.allow_hyphen_values(false))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ConfigFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = KEYS
            .iter()
            .filter(|key| matches.value_source(key.name) == Some(ValueSource::CommandLine))
            .filter_map(|key| {
                let text = matches.get_one::<String>(key.name)?;
                Some((key.name.to_owned(), text.clone()))
            })
            .collect();
        Ok(Self { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
