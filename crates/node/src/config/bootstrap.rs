//! Writes the configuration file of one node: of a new cluster, or of a node that joins one.

use std::fmt::Write as _;
use std::net::Ipv6Addr;

use seqd_api::address::{self, HTTP_PORT, PEER_PORT, base_url, is_host, is_host_port, tls_url};
use seqd_api::validate_name;

use super::keys::quoted;
use super::layers::Layers;
use super::values::ConfigError;

/// The folders of a node's files, in the written configuration.
const CERTIFICATES: &str = "/etc/seqd/tls";
const TOKEN: &str = "/etc/seqd/token";

/// The loopback port for probes, which need neither certificates nor tokens.
const HEALTH: &str = "127.0.0.1:7404";

/// The content of a configuration file.
#[derive(Clone, Debug)]
pub struct Bootstrap<'a> {
    pub name: &'a str,
    /// The founding nodes or, for a node that joins, members; each `HOST`, `HOST:PORT`, `NAME=HOST`
    /// or `NAME=HOST:PORT`. A host without a name gets its first DNS label.
    pub hosts: &'a [String],
    /// The node joins an existing cluster, and need not be one of `hosts`.
    pub joins: bool,
    /// Without TLS.
    pub insecure: bool,
    /// With access tokens.
    pub auth: bool,
    /// This machine's name: the host of a node that joins and is not one of `hosts`.
    pub hostname: &'a str,
}

/// Names with peer addresses.
type Peers = Vec<(String, String)>;

/// Returns the file, with comments.
///
/// # Errors
/// The peers or the name are not usable.
pub fn bootstrap_file(node: &Bootstrap<'_>) -> Result<String, ConfigError> {
    let mut peers = peers(node)?;
    let own = peers.iter().find(|(name, _)| name == node.name).cloned();
    if node.joins {
        peers.retain(|(name, _)| name != node.name);
    }
    let own = match own {
        Some((_, own)) => own,
        None if node.joins => own_address(node)?,
        None => {
            let names: Vec<&str> = peers.iter().map(|(name, _)| name.as_str()).collect();
            let why = format!(
                "{} is not one of the peers {}: give it as NAME=HOST, or use --join if the node \
                 joins a cluster",
                node.name,
                names.join(", ")
            );
            return refuse(&node.hosts.join(","), &why);
        }
    };
    if peers.is_empty() {
        let why = "--join needs the addresses of members, by which this node finds the cluster";
        return refuse(&node.hosts.join(","), why);
    }
    let (host, port) = own.rsplit_once(':').unwrap_or((&own, ""));
    let mut text = String::new();
    head(&mut text, node, &peers);
    ports(&mut text, node, &peers, (host, port));
    access(&mut text, node, &peers, host);
    let _ = write!(
        text,
        "\n[health]\n# /livez, /readyz and /metrics for probes, without a certificate or a token.\n\
         listen = {}\n",
        quoted(HEALTH)
    );
    // Rules that involve several hosts, or a host and a default, are checked here instead of at the
    // first start.
    Layers::default().file("--peers", &text)?.resolve(host)?;
    Ok(text)
}

fn refuse<T>(value: &str, why: &str) -> Result<T, ConfigError> {
    Err(ConfigError::value("peer.peers", value, "--peers", why))
}

fn peers(node: &Bootstrap<'_>) -> Result<Peers, ConfigError> {
    let mut peers: Peers = Vec::new();
    for item in node.hosts {
        let (label, host) = match item.split_once('=') {
            Some(named) => named,
            None => (
                address::first_label(item).unwrap_or_default(),
                item.as_str(),
            ),
        };
        let address = with_port(host);
        if label.is_empty() && is_host_port(&address) {
            let named = node.hosts.iter().enumerate().map(|(at, item)| {
                let label = address::first_label(item);
                match label {
                    None if !item.contains('=') => format!("n{}={item}", at + 1),
                    _ => item.clone(),
                }
            });
            let named = named.collect::<Vec<_>>().join(",");
            let why = format!("an address does not name its node: write --peers {named}");
            return refuse(item, &why);
        }
        if validate_name(label).is_err() || !is_host_port(&address) {
            let why = format!(
                "give HOST or NAME=HOST, with :PORT if it is not {PEER_PORT}, such as n1.example \
                 or n1=10.0.0.1:9000; put an IPv6 address with a port in brackets"
            );
            return refuse(item, &why);
        }
        if peers.iter().any(|(known, _)| known == label) {
            let why = format!("{label} is listed twice: give the names as NAME=HOST");
            return refuse(item, &why);
        }
        peers.push((label.to_owned(), address));
    }
    Ok(peers)
}

/// The peer address of a node that is not listed.
fn own_address(node: &Bootstrap<'_>) -> Result<String, ConfigError> {
    let address = with_port(node.hostname);
    if is_host_port(&address) {
        return Ok(address);
    }
    let why = format!(
        "this machine's name, {:?}, is not an address: add {}=HOST with this node's own address",
        node.hostname, node.name
    );
    refuse(&node.hosts.join(","), &why)
}

/// Adds the default peer port to a host that is written without a port. The colons of a bare IPv6
/// address do not count as a port.
fn with_port(host: &str) -> String {
    if host.parse::<Ipv6Addr>().is_ok() {
        format!("[{host}]:{PEER_PORT}")
    } else if is_host(host) {
        format!("{host}:{PEER_PORT}")
    } else {
        host.to_owned()
    }
}

fn head(text: &mut String, node: &Bootstrap<'_>, peers: &[(String, String)]) {
    let names: Vec<&str> = peers.iter().map(|(name, _)| name.as_str()).collect();
    let names = names.join(", ");
    let purpose = if node.joins {
        format!("that joins the cluster of {names}")
    } else {
        format!("of a new cluster of {names}")
    };
    let _ = write!(
        text,
        "# Node {name}, {purpose}. A flag overrides a variable, and a variable overrides this file:\n\
         # http.listen is --http-listen and SEQD_HTTP_LISTEN. `seqd config show` lists all keys.\n\n\
         [node]\n# Unique among the members; it cannot be changed.\nname = {quoted}\n\
         # Of this node alone; created if it is missing.\ndata_dir = \"/var/lib/seqd\"\n",
        name = node.name,
        quoted = quoted(node.name),
    );
    if node.insecure {
        let _ = write!(
            text,
            "# Permits other machines without TLS: only on a private network.\ninsecure = true\n"
        );
    }
}

fn ports(text: &mut String, node: &Bootstrap<'_>, peers: &Peers, (host, port): (&str, &str)) {
    // With IPv6, this address covers both families.
    let all = if host.starts_with('[') {
        "[::]"
    } else {
        "0.0.0.0"
    };
    let authority = format!("{host}:{HTTP_PORT}");
    let url = if node.insecure {
        base_url(authority)
    } else {
        tls_url(authority)
    };
    let list = peers
        .iter()
        .map(|(name, address)| toml::Value::String(format!("{name}={address}")));
    let list = toml::Value::Array(list.collect());
    let (use_of_list, advertise) = if node.joins {
        let own = quoted(&format!("{host}:{port}"));
        (
            "Members, by which this node finds the cluster.",
            format!("# The address at which other nodes reach this one.\nadvertise = {own}\n"),
        )
    } else {
        (
            "The same list on every node. It founds the cluster, and later only helps to find it.",
            String::new(),
        )
    };
    let _ = write!(
        text,
        "\n[http]\n# Clients.\nlisten = \"{all}:{HTTP_PORT}\"\n\
         # The address at which clients reach this node.\nadvertise = {url}\n\n\
         [peer]\n# Other nodes; keep this port off public networks.\nlisten = \"{all}:{port}\"\n\
         {advertise}# {use_of_list}\npeers = {list}\n",
        url = quoted(&url),
    );
    if node.joins {
        let _ = writeln!(
            text,
            "# Start this node, then run on a member or with -e: seqd member add {name} {host}:{port} \
             --http {url} --wait",
            name = node.name,
        );
    }
}

/// The sections of certificates and access tokens.
fn access(text: &mut String, node: &Bootstrap<'_>, peers: &[(String, String)], host: &str) {
    let bare = |host: &str| host.trim_matches(['[', ']']).to_owned();
    if !node.insecure {
        let client = if node.auth { "" } else { " --client admin" };
        let made_by = if node.joins {
            format!(
                "# Made where the cluster's ca.key is: seqd tls add --dir tls --node {}={}\n",
                node.name,
                bare(host)
            )
        } else {
            let nodes = peers.iter().map(|(name, address)| {
                let host = address.rsplit_once(':').map_or("", |(host, _)| host);
                format!("{name}={}", bare(host))
            });
            let nodes = nodes.collect::<Vec<_>>().join(",");
            format!("# Made once for all nodes: seqd tls init --dir tls --nodes {nodes}{client}\n")
        };
        let file = |end: &str| quoted(&format!("{CERTIFICATES}/{}.{end}", node.name));
        let client_ca = if node.auth {
            "# Also requires a certificate of each client:\n# "
        } else {
            "# Requires a certificate of each client.\n"
        };
        let _ = write!(
            text,
            "\n{made_by}[tls]\n\
             # For clients.\ncert = {cert}\nkey = {key}\n{client_ca}client_ca = {ca}\n\
             # Between nodes: on all nodes or on none.\n\
             peer_cert = {cert}\npeer_key = {key}\npeer_ca = {ca}\n",
            cert = file("crt"),
            key = file("key"),
            ca = quoted(&format!("{CERTIFICATES}/ca.crt")),
        );
    }
    if node.auth {
        let risk = if node.insecure {
            "# Without TLS, tokens can be read on the network.\n"
        } else {
            ""
        };
        let made_by = if node.joins {
            "A copy of the cluster's token file, of mode 0600, or of root with 0640.".to_owned()
        } else {
            format!(
                "Made once, and copied to all nodes: (umask 077; openssl rand -hex 32 > {TOKEN})"
            )
        };
        let _ = write!(
            text,
            "\n[auth]\n# Clients need an access token.\n{risk}enabled = true\n\
             # {made_by}\nbootstrap_token_file = {token}\n",
            token = quoted(TOKEN),
        );
    }
}
