//! `seqd config`: configuration files.
//!
//! The node crate owns the keys, the merge of the layers and the validation.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use seqd_client::api::exit;
use seqd_node::config::{self, Bootstrap, Config, ConfigError, Resolved};
use seqd_node::{Descriptors, OsClock, Tls, check_tokens};
use serde_json::{Value, json};

use crate::config_flags::ConfigFlags;
use crate::failure::Failure;
use crate::output::{Report, write_stdout};
use crate::session::Global;

/// The operations on configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print a configuration file for one node: of a new cluster, or of a node that joins one
    Init(InitArgs),
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

/// The content of the file of one node.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Name of the node
    #[arg(long)]
    name: String,
    /// All founding nodes, comma-separated: HOST or NAME=HOST, with :PORT if it is not 7401
    #[arg(long, value_delimiter = ',', required = true, value_name = "HOST,...")]
    peers: Vec<String>,
    /// For a node that joins an existing cluster: --peers are members; NAME=HOST with the node's own
    /// name sets its address, which is otherwise this machine's name
    #[arg(long)]
    join: bool,
    /// Without TLS, on all interfaces: only for a private network
    #[arg(long)]
    insecure: bool,
    /// With access tokens for clients
    #[arg(long)]
    auth: bool,
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

/// The largest configuration file. A configuration has a few kilobytes, and a path may name an
/// endless device.
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
/// others could use without authentication. If the configuration permits this, it becomes a
/// warning.
pub(crate) fn check_access(resolved: &mut Resolved) -> Result<(), Failure> {
    let config = &resolved.config;
    Tls::load(config, &OsClock).map_err(refused)?;
    check_tokens(config).map_err(refused)?;
    let open = config::check_exposed(config).map_err(refused)?;
    check_data_dir(&config.node.data_dir)?;
    resolved.warnings.extend(open);
    Ok(())
}

fn unfit(folder: &Path, why: &str) -> Failure {
    let why = format!("node.data_dir = {}: {why}", folder.display());
    Failure::of(exit::USAGE, "invalid-config", why)
}

/// Checks that this user can use the data folder if it exists. A node that starts finds out by
/// using it, and ends with a code of its own.
fn check_usable(folder: &Path) -> Result<(), Failure> {
    let has_all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match access(folder, has_all) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => {
            let error = io::Error::from(error);
            let why = format!(
                "this user cannot use it: {error}; change its owner, or run the node as its owner"
            );
            Err(unfit(folder, &why))
        }
    }
}

/// Checks that the data folder is one or can be created. Leaves no trace.
fn check_data_dir(folder: &Path) -> Result<(), Failure> {
    match folder.metadata() {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => return Err(unfit(folder, "it is a file: set a path of a folder")),
        // The folder may exist without being visible to this user.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        Err(_) => {}
    }
    let mut above = folder
        .ancestors()
        .map(|path| match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        });
    let Some(present) = above.find(|path| path.symlink_metadata().is_ok()) else {
        return Ok(());
    };
    // A name that no other process uses. The folder itself is not created, because a node that
    // starts at the same time would find it empty, and then missing.
    let probe = present.join(format!(".seqd-check-{}", std::process::id()));
    let probed = std::fs::create_dir(&probe).and_then(|()| std::fs::remove_dir(&probe));
    probed.map_err(|error| {
        let why = format!(
            "it does not exist and cannot be created in {}: {}; create it for the node's user, or \
             set another path",
            present.display(),
            error.to_string().to_lowercase()
        );
        unfit(folder, &why)
    })
}

fn refused(error: ConfigError) -> Failure {
    Failure::of(exit::USAGE, "invalid-config", error.to_string())
}

pub(super) fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

pub(crate) fn run(command: ConfigCommand, global: &Global) -> Result<u8, Failure> {
    let format = global.output;
    match command {
        ConfigCommand::Init(args) => {
            let node = Bootstrap {
                name: &args.name,
                hosts: &args.peers,
                joins: args.join,
                insecure: args.insecure,
                auth: args.auth,
                hostname: &hostname(),
            };
            write_stdout(&config::bootstrap_file(&node).map_err(refused)?)?;
        }
        ConfigCommand::Check(source) => check(&source, global)?,
        ConfigCommand::Show { source, origin } => {
            show(&source.resolve()?.config, origin)?.print(format)?;
        }
    }
    Ok(exit::OK)
}

/// Prints what is wrong or unwise, and with `--verbose` the limits of this process.
fn check(source: &ConfigSource, global: &Global) -> Result<(), Failure> {
    let mut resolved = source.resolve()?;
    check_access(&mut resolved)?;
    check_usable(&resolved.config.node.data_dir)?;
    let limits = Descriptors::raised().map_err(|error| Failure::usage(error.to_string()))?;
    let checked = json!({
        "ok": true,
        "warnings": resolved.warnings,
        "open_files": limits.all,
        "connections": { "clients": limits.clients, "peers": limits.peers },
    });
    let mut text: String = (resolved.warnings.iter())
        .map(|warning| format!("warning: {warning}\n"))
        .collect();
    if global.verbose {
        text.push_str(&format!(
            "{} open files here: at most {} connections of clients and {} of peers\n",
            limits.all, limits.clients, limits.peers
        ));
    }
    text.push_str("ok\n");
    let mut report = Report::new(&checked)?
        .with_columns("warning")
        .with_people(text);
    for warning in resolved.warnings {
        report.row(vec![warning]);
    }
    report.print(global.output)
}

fn show(config: &Config, origin: bool) -> Result<Report, Failure> {
    let items: Vec<_> = config
        .entries
        .iter()
        .map(|entry| {
            let mut item = json!({ "key": entry.key.name, "value": entry.json });
            if origin {
                item["origin"] = json!(entry.origin.to_string());
            }
            item
        })
        .collect();
    let columns = match origin {
        true => "key value origin",
        false => "key value",
    };
    let mut report = Report::list(&items)?
        .with_columns(columns)
        .with_people(config::show(&config.entries, origin));
    for entry in &config.entries {
        let mut row = vec![entry.key.name.to_owned(), plain(&entry.json)];
        if origin {
            row.push(entry.origin.to_string());
        }
        report.row(row);
    }
    Ok(report)
}

/// A value without quotes, a list with commas.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
