//! Runs `seqd tls` as an operator would: a folder of certificates grows, and nothing in it is lost.

use std::path::Path;

use serde_json::Value;

use crate::stub::{seqd, texts};

/// Runs `seqd tls` with this line; `DIR` stands for the folder.
fn tls(dir: &Path, line: &str) -> (i32, String, String) {
    let line = line.replace("DIR", dir.to_str().unwrap());
    let mut arguments = vec!["tls"];
    arguments.extend(line.split_whitespace());
    texts(&seqd("x", &arguments, ""))
}

fn done(dir: &Path, line: &str) -> String {
    let (code, stdout, stderr) = tls(dir, line);
    assert_eq!((code, stderr.as_str()), (0, ""), "{line}");
    stdout
}

/// The refusal of a line, which must end with this exit code.
fn refused(dir: &Path, line: &str, exit: i32) -> String {
    let (code, stdout, stderr) = tls(dir, line);
    assert_eq!((code, stdout.as_str()), (exit, ""), "{line}: {stderr}");
    stderr.replace(dir.to_str().unwrap(), "DIR")
}

/// The hosts and uses in a certificate, and whether its key matches.
fn inspected(dir: &Path, name: &str) -> String {
    let json = done(dir, &format!("inspect -o json DIR/{name}.crt"));
    let json: Value = serde_json::from_str(&json).unwrap();
    let words = |field: &str| {
        let list = json[0][field].as_array().unwrap().iter();
        list.map(|one| one.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let key = json[0]["key"].as_str().unwrap();
    format!("{} | {} | {key}", words("hosts"), words("uses"))
}

#[test]
fn nodes_clients_and_names_are_added_to_a_folder_of_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tls");
    let stdout = done(
        &dir,
        "init --dir DIR --nodes n1=10.0.0.1,n1.internal,n2=10.0.0.2 --also ids.example --client app",
    );
    assert!(
        stdout.contains("n1.key   to /etc/seqd/tls on 10.0.0.1   (valid for 10.0.0.1, n1.internal"),
        "{stdout}"
    );
    let local = "localhost 127.0.0.1 ::1 | server client | fits";
    let of = |name: &str| inspected(&dir, name);
    assert_eq!(
        of("n1"),
        format!("10.0.0.1 n1.internal ids.example {local}")
    );
    assert_eq!(of("n2"), format!("10.0.0.2 ids.example {local}"));

    let stdout = done(
        &dir,
        "add --dir DIR --node n4=n4.example,10.0.0.4 --also vip.example",
    );
    assert!(stdout.contains("in the configuration of n4:"), "{stdout}");
    assert_eq!(of("n4"), format!("n4.example 10.0.0.4 vip.example {local}"));
    done(&dir, "add --dir DIR --client billing --client shop");
    assert_eq!(of("billing"), " | client | fits");
    let ca = std::fs::read(dir.join("ca.crt")).unwrap();

    done(
        &dir,
        "renew --dir DIR --node n4 --also ids.example,n4.example",
    );
    assert_eq!(
        of("n4"),
        format!(
            "n4.example 10.0.0.4 vip.example {} | server client | fits",
            "localhost 127.0.0.1 ::1 ids.example"
        )
    );
    let stdout = done(&dir, "renew --dir DIR -o plain");
    let names: Vec<&str> = stdout
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    assert_eq!(names, ["app", "billing", "n1", "n2", "n4", "shop"]);
    assert_eq!(std::fs::read(dir.join("ca.crt")).unwrap(), ca);
}

#[test]
fn a_certificate_is_never_overwritten_and_the_refusal_names_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tls");
    let unnamed = refused(&dir, "init --dir DIR --nodes 10.0.0.1,10.0.0.2", 2);
    assert!(
        unnamed.contains("an address does not name its node"),
        "{unnamed}"
    );
    assert!(
        unnamed.contains("hint: --nodes n1=10.0.0.1,n2=10.0.0.2\n"),
        "{unnamed}"
    );
    assert!(!dir.exists(), "nothing was made");
    done(&dir, "init --dir DIR --nodes n1.example");
    let before = std::fs::read(dir.join("n1.key")).unwrap();

    let again = refused(&dir, "init --dir DIR --nodes n1.example,n4.example", 6);
    assert!(
        again.contains("DIR/ca.crt already exists and is not overwritten"),
        "{again}"
    );
    assert!(
        again.contains("seqd tls add --dir DIR --node NAME=HOST"),
        "{again}"
    );
    let present = refused(&dir, "add --dir DIR --node n4=h4 --node n1=h1", 6);
    assert!(present.contains("DIR/n1.crt already exists"), "{present}");
    assert!(
        present.contains("seqd tls renew --dir DIR --node n1"),
        "{present}"
    );
    assert!(!dir.join("n4.crt").exists(), "all or none");
    assert_eq!(std::fs::read(dir.join("n1.key")).unwrap(), before);

    for (line, exit, part) in [
        (
            "renew --dir DIR --node n4",
            3,
            "hint: seqd tls add --dir DIR --node n4=HOST\n",
        ),
        (
            "renew --dir DIR --client app",
            3,
            "hint: seqd tls add --dir DIR --client app\n",
        ),
        (
            "add --dir DIR --node 10.0.0.4",
            2,
            "hint: --node n1=10.0.0.4\n",
        ),
        (
            "add --dir DIR --node n4=h:7400",
            2,
            "\"h:7400\" is not NAME=HOST",
        ),
        (
            "add --dir DIR --client app --also h",
            2,
            "--also: only nodes have hosts",
        ),
        ("add --dir DIR", 2, "--node <NAME=HOST[,HOST...]>"),
        (
            "add --dir DIR --client ca",
            2,
            "ca: this is the name of the CA's files",
        ),
    ] {
        let stderr = refused(&dir, line, exit);
        assert!(stderr.contains(part), "{line}: {stderr}");
    }
}

#[test]
fn a_certificate_of_another_name_or_kind_is_not_renewed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tls");
    done(
        &dir,
        "init --dir DIR --nodes n1=h1,n2=h2 --client app --client shop",
    );
    let read = |name: &str| std::fs::read(dir.join(format!("{name}.crt"))).unwrap();
    let app = read("app");
    for (line, part) in [
        (
            "renew --dir DIR --node app",
            "DIR/app.crt is the certificate of client app, not of node app; nothing was renewed",
        ),
        (
            "renew --dir DIR --node app",
            "hint: seqd tls renew --dir DIR --client app\n",
        ),
        (
            "renew --dir DIR --client n1",
            "hint: seqd tls renew --dir DIR --node n1\n",
        ),
        (
            "renew --dir DIR --client n1 --node n1",
            "certificate of node n1, not of ",
        ),
    ] {
        let stderr = refused(&dir, line, 6);
        assert!(stderr.contains(part), "{line}: {stderr}");
    }
    assert_eq!(read("app"), app);

    for (from, to) in [("n2", "n1"), ("app", "shop")] {
        for end in ["crt", "key"] {
            let file = |name: &str| dir.join(format!("{name}.{end}"));
            std::fs::copy(file(from), file(to)).unwrap();
        }
    }
    for (line, part) in [
        (
            "renew --dir DIR --node n1",
            "of node n2, not of node n1; nothing was renewed",
        ),
        (
            "renew --dir DIR --node n1",
            "seqd tls add --dir DIR --node n1=HOST\n",
        ),
        (
            "renew --dir DIR --client shop",
            "of client app, not of client shop",
        ),
        // Without names, all certificates are renewed, or none.
        ("renew --dir DIR", "of node n2, not of node n1"),
    ] {
        let stderr = refused(&dir, line, 6);
        assert!(stderr.contains(part), "{line}: {stderr}");
    }
    assert_eq!(read("app"), app);
}

#[test]
fn a_key_of_the_ca_that_every_user_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("tls");
    done(&dir, "init --dir DIR --nodes n1=h1");
    let key = dir.join("ca.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    for line in ["renew --dir DIR", "add --dir DIR --client app"] {
        let stderr = refused(&dir, line, 1);
        let part = "DIR/ca.key is a private key and open to every user of this machine (mode 0644)";
        assert!(stderr.contains(part), "{line}: {stderr}");
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    done(&dir, "renew --dir DIR");
}
