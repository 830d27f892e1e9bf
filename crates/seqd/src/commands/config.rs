//! `seqd config`: configuration files.
//!
//! The node crate owns the keys, the merge of the layers and the validation.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use seqd_client::api::exit;
use seqd_node::config::{self, Config, ConfigError, Resolved};
use seqd_node::{Descriptors, OsClock, Tls, TokenFile};
use serde_json::json;

use crate::config_flags::ConfigFlags;
use crate::failure::Failure;
use crate::format::Format;
use crate::output::{Report, write_stdout};

/// The operations on configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a configuration file for one node of a new cluster
    Init {
        /// Name of the node
        #[arg(long)]
        name: String,
        /// All nodes, comma-separated: HOST or NAME=HOST, with :PORT if it is not 7401
        #[arg(long, value_delimiter = ',', required = true, value_name = "HOST,...")]
        peers: Vec<String>,
    },
    /// Check whether a node can run with a configuration
    Check(ConfigSource),
    /// Print the resulting configuration
    Show {
        #[command(flatten)]
        source: ConfigSource,
        /// Print the origin of each value
        #[arg(long)]
        origin: bool,
    },
}

/// The sources of the configuration. A flag overrides the environment, which overrides the file,
/// which overrides the default.
#[derive(Debug, Args)]
pub(crate) struct ConfigSource {
    /// Configuration file (TOML)
    #[arg(long, env = "SEQD_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: ConfigFlags,
}

impl ConfigSource {
    /// Merges all layers and checks the result.
    pub(crate) fn resolve(&self) -> Result<Resolved, Failure> {
        let mut layers = self.flags.layers();
        if let Some(path) = &self.config {
            let text = read_file(path).map_err(|error| {
                Failure::usage(format!("cannot read {}: {error}", path.display()))
            })?;
            layers = layers
                .file(&path.to_string_lossy(), &text)
                .map_err(refused)?;
        }
        layers.resolve(&hostname()).map_err(refused)
    }
}

/// A configuration has a few kilobytes. A larger file, or a device without an end, is not a
/// configuration.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

fn read_file(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?;
    let read = file.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_CONFIG_BYTES {
        let why = format!(
            "it is larger than {MAX_CONFIG_BYTES} bytes, the maximum of a configuration file"
        );
        return Err(io::Error::other(why));
    }
    Ok(text)
}

/// Reads the certificates, keys and tokens that the configuration names, and refuses a node that
/// would be open to everybody. Exceptions that the configuration permits become warnings.
pub(crate) fn check_access(resolved: &mut Resolved) -> Result<(), Failure> {
    Tls::load(&resolved.config, &OsClock).map_err(refused)?;
    TokenFile::load(&resolved.config).map_err(refused)?;
    let open = config::check_exposed(&resolved.config).map_err(refused)?;
    resolved.warnings.extend(open);
    Ok(())
}

fn refused(error: ConfigError) -> Failure {
    Failure::of(exit::USAGE, "invalid-config", error.to_string())
}

fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

pub(crate) fn run(command: ConfigCommand, format: Format) -> Result<u8, Failure> {
    match command {
        ConfigCommand::Init { name, peers } => {
            write_stdout(&config::bootstrap_file(&name, &peers).map_err(refused)?)?;
        }
        ConfigCommand::Check(source) => {
            let mut resolved = source.resolve()?;
            check_access(&mut resolved)?;
            let limits =
                Descriptors::raised().map_err(|error| Failure::usage(error.to_string()))?;
            let checked = json!({
                "ok": true,
                "warnings": resolved.warnings,
                "open_files": limits.all,
                "connections": { "clients": limits.clients, "peers": limits.peers },
            });
            let mut report = Report::new(&checked)?
                .with_columns(&["warning"])
                .with_people(check_text(&resolved.warnings, limits));
            for warning in resolved.warnings {
                report.row(vec![warning]);
            }
            report.print(format)?;
        }
        ConfigCommand::Show { source, origin } => {
            show(&source.resolve()?.config, origin)?.print(format)?;
        }
    }
    Ok(exit::OK)
}

fn check_text(warnings: &[String], limits: Descriptors) -> String {
    let mut text: String = warnings
        .iter()
        .map(|warning| format!("warning: {warning}\n"))
        .collect();
    let Descriptors {
        all,
        clients,
        peers,
        ..
    } = limits;
    text.push_str(&format!(
        "{all} open files here: at most {clients} connections of clients and {peers} of peers\nok\n"
    ));
    text
}

fn show(config: &Config, origin: bool) -> Result<Report, Failure> {
    let items: Vec<_> = config
        .entries
        .iter()
        .map(|entry| {
            let mut item = json!({ "key": entry.key.name, "value": entry.value });
            if origin {
                item["origin"] = json!(entry.origin.to_string());
            }
            item
        })
        .collect();
    let columns: &[&str] = if origin {
        &["key", "value", "origin"]
    } else {
        &["key", "value"]
    };
    let mut report = Report::list(&items)?
        .with_columns(columns)
        .with_people(config::show(&config.entries, origin));
    for entry in &config.entries {
        let mut row = vec![
            entry.key.name.to_owned(),
            entry.value.clone().unwrap_or_default(),
        ];
        if origin {
            row.push(entry.origin.to_string());
        }
        report.row(row);
    }
    Ok(report)
}
