//! The nodes and clients that get certificates, as given on the command line.

use std::net::IpAddr;

use seqd_client::api::address::{first_label, is_host};
use seqd_client::api::name::NAME_RULE;
use seqd_client::api::validate_name;
use seqd_net::tls::issue::Subject;

use super::folder::CA;
use crate::failure::Failure;

/// The hosts by which clients on the same machine reach a node.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The name of a node or client, which is also the base name of its files.
pub(super) fn name_of(subject: &Subject) -> &str {
    match subject {
        Subject::Node { name, .. } | Subject::Client { name } => name,
    }
}

/// The nodes in the items of `option`, then the clients. `also` are hosts of every node.
pub(super) fn subjects(
    option: &str,
    items: &[String],
    clients: &[String],
    also: &[String],
) -> Result<Vec<Subject>, Failure> {
    let also = hosts("--also", also)?;
    if items.is_empty() && !also.is_empty() {
        let why =
            "--also: only nodes have hosts, and a client's certificate contains its name alone";
        return Err(Failure::usage(why));
    }
    let mut subjects = Vec::new();
    for (name, own) in nodes(option, items)? {
        let loopback = LOOPBACK.map(str::to_owned);
        let mut hosts: Vec<String> = Vec::new();
        for host in own.into_iter().chain(also.clone()).chain(loopback) {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        subjects.push(Subject::Node { name, hosts });
    }
    let named = clients
        .iter()
        .map(|name| Subject::Client { name: name.clone() });
    subjects.extend(named);
    for (at, subject) in subjects.iter().enumerate() {
        let name = name_of(subject);
        if validate_name(name).is_err() {
            return Err(Failure::usage(format!("{name}: a name is {NAME_RULE}")));
        }
        if name == CA {
            let why = format!("{CA}: this is the name of the CA's files; choose another");
            return Err(Failure::usage(why));
        }
        if subjects[..at].iter().any(|other| name_of(other) == name) {
            let why = format!("{name} is listed twice: each node and client needs its own name");
            return Err(Failure::usage(why).with_hint("give the names of nodes as NAME=HOST"));
        }
    }
    Ok(subjects)
}

/// Names and hosts of nodes. With `NAME=HOST`, the items without a name are more hosts of the node
/// before them. If no item has a name, each is a host whose first label is the name.
fn nodes(option: &str, items: &[String]) -> Result<Vec<(String, Vec<String>)>, Failure> {
    let mut nodes: Vec<(String, Vec<String>)> = Vec::new();
    let are_named = items.iter().any(|item| item.contains('='));
    for item in items {
        let (name, host) = match (item.split_once('='), nodes.last_mut()) {
            (Some((name, host)), _) => (Some(name), host_of(option, host)?),
            (None, Some((_, hosts))) if are_named => {
                hosts.push(host_of(option, item)?);
                continue;
            }
            (None, _) => {
                let host = host_of(option, item)?;
                (first_label(item).filter(|_| !are_named), host)
            }
        };
        let name = name.ok_or_else(|| unnamed(option, item, items))?;
        nodes.push((name.to_owned(), vec![host]));
    }
    Ok(nodes)
}

/// The refusal of an item without a name, with the option as it should be.
fn unnamed(option: &str, item: &str, items: &[String]) -> Failure {
    let why = match first_label(item) {
        Some(_) => "other nodes have names; give each node's name",
        None => "an address does not name its node; give the name, too",
    };
    let mut are_leading = true;
    let named = items.iter().enumerate().map(|(at, item)| {
        are_leading &= !item.contains('=');
        match first_label(item) {
            _ if !are_leading => item.clone(),
            Some(label) => format!("{label}={item}"),
            None => format!("n{}={item}", at + 1),
        }
    });
    let named = named.collect::<Vec<_>>().join(",");
    Failure::usage(format!("{option}: {item:?}: {why}")).with_hint(format!("{option} {named}"))
}

pub(super) fn hosts(option: &str, items: &[String]) -> Result<Vec<String>, Failure> {
    items.iter().map(|item| host_of(option, item)).collect()
}

/// The host as a certificate contains it: an IPv6 address without brackets.
fn host_of(option: &str, text: &str) -> Result<String, Failure> {
    let inner = text.trim_start_matches('[').trim_end_matches(']');
    let address = inner.parse::<IpAddr>();
    if address.is_ok_and(|address| !address.is_unspecified()) {
        return Ok(inner.to_owned());
    }
    if is_host(text) && !text.starts_with('[') {
        return Ok(text.to_owned());
    }
    let form = if option == "--also" {
        "HOST"
    } else {
        "NAME=HOST"
    };
    Err(Failure::usage(format!(
        "{option}: {text:?} is not {form}: the host is a name or an address, \
         without a port"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(items: &str) -> Vec<String> {
        items.split_terminator(' ').map(str::to_owned).collect()
    }

    fn named(items: &str) -> Result<Vec<(String, Vec<String>)>, String> {
        nodes("--nodes", &texts(items))
            .map_err(|failure| failure.text(crate::format::Format::Table))
    }

    #[test]
    fn a_node_has_one_or_more_hosts() {
        let node = |name: &str, hosts: &str| (name.to_owned(), texts(hosts));
        assert_eq!(
            named("n1.example n2"),
            Ok(vec![node("n1", "n1.example"), node("n2", "n2")])
        );
        assert_eq!(named("n1=10.0.0.1"), Ok(vec![node("n1", "10.0.0.1")]));
        assert_eq!(
            named("n1=10.0.0.1 n1.example [::2] n2=10.0.0.2"),
            Ok(vec![
                node("n1", "10.0.0.1 n1.example ::2"),
                node("n2", "10.0.0.2")
            ])
        );
    }

    #[test]
    fn a_node_without_a_name_is_refused_with_the_option_as_it_should_be() {
        let hint = |items: &str| {
            let text = named(items).unwrap_err();
            text.split("hint: ").nth(1).unwrap_or(&text).to_owned()
        };
        assert_eq!(
            hint("10.0.0.1 10.0.0.2"),
            "--nodes n1=10.0.0.1,n2=10.0.0.2\n"
        );
        assert_eq!(
            hint("n1.example ::2 n3=10.0.0.3 h3"),
            "--nodes n1=n1.example,n2=::2,n3=10.0.0.3,h3\n"
        );
        for wrong in ["n1=", "n1=0.0.0.0", "n1=h:7401", "n1=a/b", "h:7400"] {
            let why = named(wrong).unwrap_err();
            assert!(why.contains("without a port"), "{wrong}: {why}");
        }
    }

    #[test]
    fn every_node_has_the_hosts_of_a_balancer_and_loopback() {
        let of = |clients: &str, also: &str| {
            subjects(
                "--nodes",
                &texts("n1=h1 n2=h2"),
                &texts(clients),
                &texts(also),
            )
        };
        let found = of("app", "ids.example 10.0.0.9").unwrap();
        let Subject::Node { hosts, .. } = &found[1] else {
            panic!("{found:?}");
        };
        assert_eq!(
            hosts.join(" "),
            "h2 ids.example 10.0.0.9 localhost 127.0.0.1 ::1"
        );
        assert_eq!(found.len(), 3);
        assert!(of("n1", "").is_err() && of("ca", "").is_err());
        assert!(subjects("--node", &[], &texts("app"), &texts("h")).is_err());
    }
}
