//! The command line: data on stdout, talk on stderr, exit codes from the one table.

use std::process::Output;

use seqd_tests::binary;
use seqd_tests::cluster::Cluster;

struct Shell {
    endpoints: String,
}

impl Shell {
    fn new(cluster: &Cluster) -> Self {
        Self {
            endpoints: cluster.urls().join(","),
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        binary::run(&[&["--endpoints", &self.endpoints], arguments].concat())
    }

    /// The stdout of a command that succeeds.
    #[track_caller]
    fn out(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {output:?}"
        );
        assert!(output.stdout.is_empty(), "talk on stdout: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn ids_sequences_and_the_cluster_from_the_command_line() {
    let cluster = Cluster::started(3);
    let shell = Shell::new(&cluster);

    let ids = shell.out(&["id", "-n", "3"]);
    let ids: Vec<u64> = ids
        .lines()
        .map(|line| line.parse().expect("an ID"))
        .collect();
    assert!(
        ids.len() == 3 && ids.windows(2).all(|pair| pair[0] < pair[1]),
        "{ids:?}"
    );
    assert_eq!(shell.out(&["id", "--format", "crockford"]).trim().len(), 13);
    let decoded = shell.out(&["decode", &ids[0].to_string()]);
    assert!(
        decoded.contains("worker") && decoded.contains("default"),
        "{decoded}"
    );
    assert_eq!(shell.out(&["uuid", "-n", "2"]).lines().count(), 2);

    shell.out(&["seq", "create", "order", "--mode", "strict"]);
    assert_eq!(
        shell.out(&["seq", "next", "order", "--count", "2"]),
        "1\n2\n"
    );
    let next = shell.out(&["-o", "json", "seq", "next", "order"]);
    let next: serde_json::Value = serde_json::from_str(&next).expect("JSON");
    assert!(next.to_string().contains("\"3\""), "{next}");
    assert!(shell.out(&["seq", "list"]).contains("order"));
    assert!(shell.out(&["seq", "get", "order"]).contains("strict"));

    let status = shell.out(&["status"]);
    assert!(
        ["n1", "n2", "n3", "leader", "3/3"]
            .iter()
            .all(|word| status.contains(word)),
        "{status}"
    );
    let members = shell.out(&["member", "list"]);
    assert!(
        ["n1", "n2", "n3"].iter().all(|name| members.contains(name)),
        "{members}"
    );
    assert!(shell.out(&["worker", "list"]).contains("default"));
    assert!(binary::run(&["version"]).status.success());
}

#[test]
fn failures_have_the_exit_code_of_their_kind() {
    let mut cluster = Cluster::started(3);
    let shell = Shell::new(&cluster);
    shell.out(&["seq", "create", "order", "--mode", "strict"]);
    assert!(
        shell
            .fails(&["seq", "next", "nosuch"], 3)
            .contains("seq create nosuch")
    );
    shell.fails(&["seq", "create", "order", "--mode", "segment"], 6);
    shell.fails(&["seq", "next", "order", "--count", "1000001"], 2);
    shell.fails(&["nosuch"], 2);
    // A destructive command without a terminal and without --yes does nothing.
    shell.fails(&["member", "remove", "n3"], 2);
    assert!(shell.out(&["member", "list"]).contains("n3"));
    let error = shell.run(&["-o", "json", "seq", "get", "nosuch"]);
    let text = String::from_utf8(error.stderr).unwrap();
    let problem: serde_json::Value = serde_json::from_str(text.trim()).expect("an error as JSON");
    assert_eq!(problem["code"], "not-found");

    // The next endpoint is tried where one refuses the connection.
    cluster.node_mut(0).kill();
    shell.out(&["id"]);
    cluster.node_mut(1).kill();
    shell.fails(&["seq", "next", "order"], 5);
    cluster.node_mut(2).kill();
    shell.fails(&["id"], 5);
}
