//! The check of the given endpoints: each answers, and all of them are nodes of one cluster.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use seqd_client::{Client, Error, Options};

use super::check::{Check, Finding, fail, warn};

/// The responses of one given endpoint.
pub(super) struct Endpoint {
    pub(super) name: String,
    pub(super) seen: EndpointAnswer,
}

pub(super) enum EndpointAnswer {
    /// It does not answer `/livez`.
    Silent(String),
    /// It answers, but does not return its view of the cluster.
    Refuses(String),
    Node {
        name: String,
        /// `None` for a node without a cluster.
        cluster_id: Option<String>,
    },
}

/// Requests the cluster of each given endpoint. The access token goes to these endpoints in any
/// case, because each command tries them in turn. `/livez` needs no token, so none is sent with it.
pub(super) async fn look(options: &Options) -> Vec<Endpoint> {
    let asked = options.endpoints.iter().map(|endpoint| async move {
        let of_endpoint = Options {
            endpoints: vec![endpoint.clone()],
            ..options.clone()
        };
        Endpoint {
            name: endpoint.to_string(),
            seen: look_at(of_endpoint).await,
        }
    });
    join_all(asked).await
}

async fn look_at(options: Options) -> EndpointAnswer {
    let without_token = Options {
        token: None,
        ..options.clone()
    };
    let live = async { Client::new(without_token)?.live().await };
    if let Err(error) = live.await {
        return EndpointAnswer::Silent(error.to_string());
    }
    let cluster = async { Client::new(options)?.cluster().await };
    let cluster: Result<_, Error> = cluster.await;
    match cluster {
        Ok(cluster) => EndpointAnswer::Node {
            name: cluster.node,
            cluster_id: cluster.cluster_id,
        },
        Err(error) => EndpointAnswer::Refuses(error.to_string()),
    }
}

pub(super) fn check(endpoints: &[Endpoint]) -> Check {
    let findings = endpoints.iter().filter_map(finding);
    Check::of(
        "endpoints",
        "clients try the endpoints in turn, and accept a response from any of them",
        findings.chain(different_clusters(endpoints)),
        format!("all {} given endpoints answer", endpoints.len()),
    )
}

fn finding(Endpoint { name, seen }: &Endpoint) -> Option<Finding> {
    match seen {
        EndpointAnswer::Silent(error) => Some(warn(
            format!("{name} does not answer: {error}"),
            "start the node, or correct --endpoints of the clients: each waits for it before it \
             uses the next",
        )),
        EndpointAnswer::Refuses(error) => Some(warn(
            format!("{name} does not return its cluster: {error}"),
            "give a token with the scope read that every endpoint accepts; nodes of one cluster \
             accept the same tokens",
        )),
        EndpointAnswer::Node { .. } => None,
    }
}

/// Endpoints of several clusters: a client that uses both receives the same values of a sequence
/// from each.
fn different_clusters(endpoints: &[Endpoint]) -> Option<Finding> {
    let mut by_cluster: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Endpoint { name, seen } in endpoints {
        if let EndpointAnswer::Node {
            name: node,
            cluster_id: Some(cluster),
        } = seen
        {
            let nodes = by_cluster.entry(cluster).or_default();
            nodes.push(format!("{name} ({node})"));
        }
    }
    let groups = by_cluster.iter();
    let groups: Vec<String> = groups
        .map(|(cluster, nodes)| format!("{} to {cluster}", nodes.join(", ")))
        .collect();
    (groups.len() > 1).then(|| {
        fail(
            format!(
                "the endpoints belong to different clusters: {}",
                groups.join("; ")
            ),
            "find out with `seqd status -e ENDPOINT` and `seqd seq list -e ENDPOINT` which cluster \
             holds your data, and remove the endpoints of the other one from the list of every \
             client at once: both issue the same values",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::check::Outcome;
    use super::*;

    fn endpoint(name: &str, seen: EndpointAnswer) -> Endpoint {
        let name = name.to_owned();
        Endpoint { name, seen }
    }

    fn node(name: &str, cluster_id: Option<&str>) -> Endpoint {
        let seen = EndpointAnswer::Node {
            name: name.to_owned(),
            cluster_id: cluster_id.map(str::to_owned),
        };
        endpoint(&format!("{name}.example:7400"), seen)
    }

    #[test]
    fn endpoints_of_two_clusters_fail_and_each_is_named() {
        let one = [node("n1", Some("01A")), node("n2", Some("01A"))];
        assert_eq!(check(&one).result, Outcome::Ok);
        let two = [
            node("n1", Some("01B")),
            node("n2", Some("01A")),
            node("n3", Some("01A")),
            node("n4", None),
        ];
        let found = check(&two);
        assert_eq!(found.result, Outcome::Fail);
        assert_eq!(
            found.detail,
            "the endpoints belong to different clusters: n2.example:7400 (n2), n3.example:7400 \
             (n3) to 01A; n1.example:7400 (n1) to 01B"
        );
    }

    #[test]
    fn an_endpoint_without_an_answer_warns() {
        for seen in [
            EndpointAnswer::Silent("connection refused".to_owned()),
            EndpointAnswer::Refuses("the token is unknown".to_owned()),
        ] {
            let found = check(&[node("n1", Some("01A")), endpoint("b:1", seen)]);
            assert_eq!(found.result, Outcome::Warn);
            assert!(
                found.detail.starts_with("b:1 does not "),
                "{}",
                found.detail
            );
        }
    }
}
