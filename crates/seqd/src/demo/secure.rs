//! The files of a demo with `--secure`: a CA, a certificate for each node, and the operator's
//! token, all in the demo's folder.

use std::path::{Path, PathBuf};

use seqd_client::ClientFiles;
use seqd_client::api::Token;
use seqd_net::tls::issue::{Authority, Subject};

use crate::commands::tls;
use crate::demo::plan::NodePlan;
use crate::failure::Failure;

/// Longer than the use of any demo.
const DAYS: u32 = 365;

const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "::1"];

/// The credentials for clients of the demo.
#[derive(Debug, Clone)]
pub(crate) struct Secured {
    pub(crate) cacert: PathBuf,
    pub(crate) token: PathBuf,
    files: PathBuf,
}

impl Secured {
    /// The files of this folder.
    fn of(folder: &Path) -> Self {
        let files = folder.join("tls");
        Self {
            cacert: files.join("ca.crt"),
            token: folder.join("token"),
            files,
        }
    }

    /// Returns whether the folder contains the files.
    pub(crate) fn is_in(folder: &Path) -> bool {
        Self::of(folder).cacert.exists()
    }

    /// Returns the files that are in the folder, or creates them.
    pub(crate) fn make(folder: &Path, nodes: &[&str]) -> Result<Self, Failure> {
        let secured = Self::of(folder);
        if Self::is_in(folder) {
            return Ok(secured);
        }
        write_token(&secured.token)?;
        let certificates = tls::Folder::new(&secured.files);
        certificates.create()?;
        let validity = tls::for_days(DAYS, tls::now());
        let (authority, ca) = Authority::create("seqd demo CA", validity).map_err(tls::failed)?;
        for name in nodes {
            let subject = Subject::Node {
                name: (*name).to_owned(),
                hosts: HOSTS.map(str::to_owned).to_vec(),
            };
            let issued = authority.issue(&subject, validity).map_err(tls::failed)?;
            certificates.put(name, &issued)?;
        }
        // Written last: if it exists, the folder contains all files.
        certificates.put(tls::CA, &ca)?;
        Ok(secured)
    }

    /// The sections of a node's configuration for these files.
    pub(crate) fn config_text(&self, node: &str) -> String {
        let quoted = |path: PathBuf| serde_json::Value::from(path.to_string_lossy()).to_string();
        let (cert, key) = (format!("{node}.crt"), format!("{node}.key"));
        let [cert, key] = [cert, key].map(|name| quoted(self.files.join(name)));
        let (ca, token) = (quoted(self.cacert.clone()), quoted(self.token.clone()));
        format!(
            "\n[tls]\ncert = {cert}\nkey = {key}\n\
             peer_cert = {cert}\npeer_key = {key}\npeer_ca = {ca}\n\n\
             [auth]\nenabled = true\nbootstrap_token_file = {token}\n"
        )
    }

    /// The shell commands that make a shell a client of the demo.
    pub(crate) fn how_to(&self, nodes: &[NodePlan]) -> String {
        let urls: Vec<String> = nodes.iter().map(|node| node.url(true)).collect();
        let (cacert, token) = (shell_word(&self.cacert), shell_word(&self.token));
        format!(
            "  export SEQD_ENDPOINTS={all}\n  \
             export SEQD_CACERT={cacert} SEQD_TOKEN_FILE={token}\n  \
             seqd status\n  seqd access create --scope allocate:order. --description shop\n  \
             curl --cacert \"$SEQD_CACERT\" \
             -H \"Authorization: Bearer $(cat \"$SEQD_TOKEN_FILE\")\" {first}/v1/id\n",
            all = urls.join(","),
            first = urls.first().map_or("", String::as_str),
        )
    }

    pub(crate) fn client_files(&self) -> ClientFiles {
        ClientFiles {
            cacert: Some(self.cacert.clone()),
            ..ClientFiles::default()
        }
    }

    pub(crate) fn token(&self) -> Result<Token, Failure> {
        Token::read(&self.token).map_err(|error| Failure::failed(error.to_string()))
    }
}

/// The path as one word of a POSIX shell.
fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./:@%+=,-".contains(c);
    if text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn write_token(path: &Path) -> Result<(), Failure> {
    let secret = seqd_node::new_secret().map_err(|error| {
        let path = path.display();
        Failure::failed(format!("cannot make {path}: {error}"))
    })?;
    tls::write(path, &format!("{secret}\n"), 0o600)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Runs the printed assignments and returns the values, as a program that the shell starts
    /// receives them.
    fn exported(folder: &Path) -> String {
        let text = Secured::of(folder).how_to(&[]);
        let lines: Vec<&str> = text.lines().take(2).collect();
        let print = r#"printf '%s|%s' "$SEQD_CACERT" "$SEQD_TOKEN_FILE""#;
        let shell = Command::new("sh")
            .args(["-c", &format!("{}\n{print}", lines.join("\n"))])
            .output()
            .unwrap();
        String::from_utf8(shell.stdout).unwrap()
    }

    #[test]
    fn printed_commands_quote_paths_for_a_shell() {
        for folder in ["/tmp/demo-1", "/tmp/a demo", "/tmp/it's $HOME;\"*"] {
            let expected = format!("{folder}/tls/ca.crt|{folder}/token");
            assert_eq!(exported(Path::new(folder)), expected);
        }
        let plain = Secured::of(Path::new("/tmp/demo-1")).how_to(&[]);
        assert!(
            plain.contains(" SEQD_CACERT=/tmp/demo-1/tls/ca.crt "),
            "{plain}"
        );
        for part in [r#" "$SEQD_CACERT" "#, r#" $(cat "$SEQD_TOKEN_FILE")" "#] {
            assert!(plain.contains(part), "{plain}");
        }
    }
}
