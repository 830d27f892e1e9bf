//! Wrong configurations: each message has the key, its value, the reason and the remedy.

use super::super::*;
use super::file;

/// The lines of a valid file. A wrong line replaces the line with the same key.
const RIGHT: [(&str, &str); 4] = [
    ("node.name", "\"n1\""),
    ("http.listen", "\"127.0.0.1:7400\""),
    ("peer.listen", "\"127.0.0.1:7401\""),
    (
        "peer.peers",
        "[\"n1=127.0.0.1:7401\", \"n2=h2:7401\", \"n3=h3:7401\"]",
    ),
];

/// The message for a file with these lines.
fn message(wrong: &str) -> String {
    let mut text = String::new();
    for (key, value) in RIGHT {
        if !wrong.contains(&format!("{key} =")) {
            text.push_str(&format!("{key} = {value}\n"));
        }
    }
    text.push_str(wrong);
    let resolved = file(&text).and_then(|resolved| check_exposed(&resolved.config));
    resolved
        .map(|_| String::new())
        .unwrap_or_else(|error| error.to_string())
}

#[test]
fn every_wrong_configuration_is_refused_with_key_value_reason_and_remedy() {
    let mut count = 0;
    for row in include_str!("wrong.txt").lines() {
        if row.is_empty() || row.starts_with('#') {
            continue;
        }
        count += 1;
        let (wrong, parts) = row.split_once(" | ").unwrap();
        let message = message(&wrong.replace("\\n", "\n"));
        let parts: Vec<&str> = parts.split(" | ").collect();
        assert_eq!(parts.len(), 4, "{row}");
        for part in parts {
            assert!(message.contains(part), "{wrong}: no {part:?} in: {message}");
        }
    }
    assert!(count >= 50, "{count}");
}

#[test]
fn settings_that_work_but_are_unwise_pass_with_a_warning() {
    let warnings = |peers: &str, more: &str| {
        let text = format!("node.name = \"n4\"\npeer.peers = [{peers}]\n{more}");
        let resolved = file(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        resolved.warnings.join("\n")
    };
    let members = "\"n1=h1:1\", \"n2=h2:1\", \"n3=h3:1\"";
    let unlisted = warnings(members, "");
    for part in [
        "node.name = n4 is not in peer.peers (n1, n2, n3)",
        "host.example:7401, which is derived",
        "set peer.advertise",
        "correct the name",
    ] {
        assert!(unlisted.contains(part), "{part}: {unlisted}");
    }
    // The file of a joining node, and of a node that has joined.
    assert_eq!(warnings(members, "peer.advertise = \"h4:1\""), "");
    let own = "\"n1=h1:1\", \"n3=h3:1\", \"n4=h4:1\"";
    assert_eq!(warnings(own, ""), "");
    let differs = warnings(own, "peer.advertise = \"h5:1\"");
    assert!(
        differs.contains("differs from n4=h4:1 in peer.peers"),
        "{differs}"
    );
    let local = warnings("\"n1=h1:1\", \"n2=h2:1\", \"n4=127.0.0.1:1\"", "");
    assert!(
        local.contains("is 127.0.0.1:1, which n1 (h1:1) cannot reach"),
        "{local}"
    );
    let window = "clock.window = \"1s\"\nraft.election = [\"1s\", \"2s\"]";
    let short = warnings(own, window);
    assert!(
        short.contains("clock.window = 1s is not longer than an election (2s)"),
        "{short}"
    );
    let unused = warnings(own, "compat.tinyid_tokens = \"/tokens\"");
    assert!(unused.contains("does not contain tinyid"), "{unused}");
    assert_eq!(warnings(own, "compat.tinyid_tokens = \"\""), "", "no file");
    // The list of a joining node is not a list of voters.
    let joins = warnings("\"n1=h1:1\", \"n2=h2:1\"", "peer.advertise = \"h4:1\"");
    assert_eq!(joins, "");
    let even = warnings("\"n1=h1:1\", \"n4=h4:1\"", "");
    assert!(
        even.contains("2 voters tolerate no more lost nodes than 1"),
        "{even}"
    );
}
