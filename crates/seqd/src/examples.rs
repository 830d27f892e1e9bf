//! The examples in the help of the commands. The help of a command lists the examples that begin
//! with its words, so the help of a group, such as `seqd seq`, lists those of all its commands.

use clap::Command;

/// Command lines, in the order in which a help lists them.
pub(crate) const EXAMPLES: &[&str] = &[
    "seqd demo",
    "seqd demo --data-dir demo --secure",
    "seqd server --config /etc/seqd/seqd.toml",
    "seqd status",
    "seqd status --watch",
    "seqd doctor",
    "seqd doctor -e n1,n2,n3 -v",
    "seqd id",
    "seqd id -n 5 --format b62 --pad 12",
    "seqd decode 117450583018840065",
    "seqd verify-ids column.txt",
    "seqd verify-ids column.txt --layout twitter --foreign",
    "seqd uuid -n 2",
    "seqd uuid --version 4",
    "seqd timestamp -n 3",
    "seqd seq list --prefix order.",
    "seqd seq get order",
    "seqd seq create order",
    "seqd seq create invoice --mode strict --start 1000",
    "seqd seq update invoice --max 999999 --if-revision 2",
    "seqd seq next order -n 100 --contiguous",
    "seqd seq next order --idempotency-key invoice-7",
    "seqd seq advance order 5000",
    "seqd seq delete order --dry-run",
    "seqd import leaf leaf_alloc.sql --margin 100000 --dry-run",
    "seqd import tinyid tiny_id_info.tsv --mode strict",
    "seqd import counters counters.csv --prefix shop.",
    "seqd layout list",
    "seqd layout create short --epoch 2026-06-01T00:00:00Z --time-bits 39 --worker-bits 8",
    "seqd layout explain default --rate 2000 --mod 16,64",
    "seqd layout encode default --time 2026-11-21T00:00:00Z",
    "seqd worker list --layout default",
    "seqd worker lease --owner pod-7",
    "seqd worker renew 17 --owner pod-7 --lease 152051615188281658329",
    "seqd worker release 17 --owner pod-7 --lease 152051615188281658329",
    "seqd worker reset n2 --dry-run",
    "seqd key begin pay-42 --ttl 1h --claim-ttl 10s",
    "seqd key complete pay-42 --claim 9 --result '{\"paid\":true}'",
    "seqd key abandon pay-42 --claim 9",
    "seqd key get pay-42",
    "seqd key list --prefix pay-",
    "seqd key delete pay-42",
    "seqd token issue --count 3 --ttl 10m",
    "seqd token consume 00000000000abc",
    "seqd token list --tenant operator",
    "seqd token delete 00000000abc",
    "seqd elect run boss --ttl 10s -- serve",
    "seqd elect show boss --watch",
    "seqd lock acquire jobs/nightly --owner pod-7 --ttl 10s --wait 1m",
    "seqd lock renew jobs/nightly --lease 12 --ttl 10s",
    "seqd lock release jobs/nightly --lease 12",
    "seqd lock break jobs/nightly --token 12",
    "seqd lock verify jobs/nightly --token 12",
    "seqd lock run jobs/nightly --ttl 10s --wait 1m -- make report",
    "seqd lock list --prefix jobs/",
    "seqd lock get jobs/nightly",
    "seqd member list",
    "seqd member add n4 n4.example:7401 --wait",
    "seqd member update n2 --peer n2.example:7401 --http https://n2.example:7400",
    "seqd member promote n4 --wait",
    "seqd member demote n4 --dry-run",
    "seqd member replace n1 n4 n4.example:7401 --dry-run",
    "seqd member remove n4 --dry-run",
    "seqd leader show",
    "seqd leader move n2",
    "seqd drain n1 --dry-run",
    "seqd drain n1",
    "seqd resume n1",
    "seqd snapshot save backup.snap",
    "seqd snapshot inspect backup.snap",
    "seqd snapshot verify backup.snap",
    "seqd snapshot restore b.snap --data-dir /var/lib/seqd --name n1 --peer n1:7401 --margin 0",
    "seqd data inspect --data-dir /var/lib/seqd",
    "seqd data verify --data-dir /var/lib/seqd",
    "seqd data recover-quorum --data-dir /var/lib/seqd --floor order=1201 --margin 1000 --dry-run",
    "seqd bench ids -e n1,n2,n3 --clients 64 --duration 30s",
    "seqd bench seq --count 100 -o json",
    "seqd bench strict -e n1,n2,n3 --rate 2000 --duration 1m",
    "seqd bench ordered -e n1 --vs n2",
    "seqd bench locks --clients 16 --names 1",
    "seqd bench url https://old.example/next --method POST --json-field id --vs https://new/next",
    "seqd access create --scope allocate:order. --description shop --ttl 90d --out shop.token",
    "seqd access list",
    "seqd access revoke 0123456789abcdef",
    "seqd tls init --dir tls --nodes n1=n1.example,n2=10.0.0.2 --client app",
    "seqd tls init --dir tls --nodes n1=10.0.0.1,n1.internal,n2=10.0.0.2 --also ids.example",
    "seqd tls add --dir tls --node n4=n4.example,10.0.0.4",
    "seqd tls add --dir tls --client billing",
    "seqd tls renew --dir tls --node n1",
    "seqd tls renew --dir tls --also ids.example",
    "seqd tls inspect tls/n1.crt tls/ca.crt",
    "seqd config init --name n1 --peers n1.example,n2.example,n3.example",
    "seqd config init --name n4 --join --peers n1.example,n2.example,n4.example",
    "seqd config init --name n1 --insecure --peers n1=10.0.0.1,n2=10.0.0.2,n3=10.0.0.3",
    "seqd config check --config seqd.toml",
    "seqd config show --origin",
    "seqd completions bash",
    "seqd man /usr/local/share/man/man1",
    "seqd version",
];

/// Adds the examples to a command of `seqd`, and to its own commands.
pub(crate) fn add(command: Command) -> Command {
    add_below("seqd", command)
}

fn add_below(parent: &str, command: Command) -> Command {
    let path = format!("{parent} {}", command.get_name());
    let own: Vec<&str> = (EXAMPLES.iter().copied())
        .filter(|line| {
            let rest = line.strip_prefix(path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
        .collect();
    let command = command.mut_subcommands(|inner| add_below(&path, inner));
    match own.as_slice() {
        [] => command,
        [one] => command.after_help(format!("Example:\n  {one}")),
        several => command.after_help(format!("Examples:\n  {}", several.join("\n  "))),
    }
}
