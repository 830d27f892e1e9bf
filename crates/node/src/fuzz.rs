//! The fuzz targets, which take any bytes. `docs/internals/FUZZING.md` lists them.
//!
//! A target panics if a guarantee is broken. The tests also run the stored inputs in
//! `tests/fuzz/corpus`, so that the guarantees are checked without a fuzzer.

use crate::config::keys::KEYS;
use crate::config::{self, Bootstrap, Config, ConfigError, Layers, bootstrap_file};

pub use crate::http::fuzz::{node_header, node_http};
pub use crate::protocols::memcached::fuzz::node_memcached;
pub use crate::protocols::redis::fuzz::node_redis;

/// The greatest length of an error message, apart from what it quotes of the file.
const MOST_WORDS: usize = 2048;

fn read(text: &str) -> Result<Config, ConfigError> {
    let layers = Layers::default().file("seqd.toml", text)?;
    Ok(layers.resolve("host.example")?.config)
}

/// The lines that are not comments.
fn given(shown: &str) -> Vec<&str> {
    shown
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect()
}

/// Tests a configuration file or, if the first byte is 0, the host names of a new cluster, one per
/// line.
///
/// An accepted file must be accepted again, with the same values, in the form that `show` prints.
/// An error must name the file or the key.
pub fn node_config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Some(hosts) = text.strip_prefix('\0') {
        return founded(hosts);
    }
    match read(text) {
        Ok(config) => {
            let shown = config::show(&config.entries, false);
            match read(&shown) {
                Ok(again) => assert_eq!(given(&config::show(&again.entries, false)), given(&shown)),
                // If the system chooses the port, the advertised address is not known before the
                // start.
                Err(_) if given(&shown).iter().any(|line| line.ends_with(":0\"")) => {}
                Err(error) => panic!("{error} in\n{shown}"),
            }
        }
        Err(error) => {
            let words = error.to_string();
            let has_key = KEYS.iter().any(|key| words.contains(key.name));
            assert!(has_key || words.contains("seqd.toml"), "{words}");
            assert!(words.len() <= MOST_WORDS + 8 * text.len(), "{words}");
        }
    }
}

/// Checks that the initial file of a new cluster is accepted.
fn founded(hosts: &str) {
    let hosts: Vec<String> = hosts.lines().map(str::to_owned).collect();
    let name = hosts.first().map_or("", |host| {
        host.split(['=', '.', ':']).next().unwrap_or_default()
    });
    let node = Bootstrap {
        name,
        hosts: &hosts,
        joins: hosts.len().is_multiple_of(2),
        insecure: false,
        auth: true,
        hostname: "host.example",
    };
    match bootstrap_file(&node) {
        Ok(text) => match read(&text) {
            Ok(config) => assert_eq!(config.node.name, name),
            Err(error) => panic!("{error} in\n{text}"),
        },
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{replay, seeds};

    #[test]
    fn kept_configurations_are_taken_or_refused_with_words() {
        let deployed = include_str!("../../../deploy/seqd.toml");
        let inputs = [
            deployed,
            "[node]\nname = \"n1\"\n",
            "[node]\nname_from = \"hostname\"\ninsecure = true\n[tls]\ncert = \"a\"\nkey = \"b\"\n",
            "[node]\nname = \"n1\"\nname_from = \"hostname\"\n",
            "[node]\nname = \"n 1\"\n",
            "[node]\nname = \"n1\"\n[http]\nlisten = \"[::]:7400\"\nhosts = [\"a.example\", \"[::1]\"]\n",
            "[node]\nname = \"n1\"\n[peer]\npeers = [\"n1=n1:7401\", \"n2=n2:7401\", \"n3=[::2]:7401\"]\n",
            "[node]\nname = \"n1\"\n[raft]\nelection = [\"400ms\", \"800ms\"]\nheartbeat = \"1s\"\n",
            "[node]\nname = \"n1\"\n[segment]\ntarget = \"1m\"\nmin = 10\nmax = 5\n",
            "[clock]\non_rollback = \"continue\"\nworkers = -1\n",
            "[nodes]\nname = \"n1\"\n",
            "name = \"n1\"\n",
            "[node\n",
            "\0n1.example\nn2.example\nn3=10.0.0.3:9000\n",
            "\0n1=2001:db8::1\n",
        ];
        let inputs = inputs.map(|text| text.as_bytes().to_vec());
        replay("node_config", &seeds(inputs), node_config);
    }
}
