//! The order in which connections are closed in favour of others.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::Full;
use tokio::task::JoinHandle;
use tokio::time::advance;

use super::losers::FEW;
use super::*;

struct Port(Held);

impl Port {
    /// A port with this many places and a reserved one.
    fn new(places: usize) -> Self {
        Self(Held::new(places + 1, 100))
    }

    fn connect(&mut self, from: u8) -> (JoinHandle<()>, ClientConnection) {
        let client = self.0.connection(Some([127, 0, 0, from].into()), false);
        let own = Leaving(client.clone());
        let task = tokio::spawn(async move {
            let _own = own;
            std::future::pending::<()>().await;
        });
        self.0.make_place();
        self.0.add(task.abort_handle(), &client);
        (task, client)
    }
}

struct Leaving(ClientConnection);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.left();
    }
}

async fn is_over(task: &JoinHandle<()>) -> bool {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    task.is_finished()
}

#[tokio::test(start_paused = true)]
async fn one_too_many_ends_one_that_never_asked_then_the_one_that_asked_longest_ago() {
    let mut port = Port::new(3);
    let (first, asks) = port.connect(1);
    let (second, busy) = port.connect(1);
    let (third, _) = port.connect(1);
    let _answering = busy.begin();
    drop(asks.begin());
    advance(ARRIVAL).await;
    let (fourth, asks) = port.connect(1);
    assert!(is_over(&third).await, "it never asked");
    drop(asks.begin());
    let (fifth, asks) = port.connect(1);
    assert!(is_over(&first).await, "it asked before the other");
    drop(asks.begin());
    assert!(!is_over(&second).await, "it is answered");
    assert!(!is_over(&fourth).await && !is_over(&fifth).await);
}

#[tokio::test]
async fn the_address_that_has_most_connections_loses_one() {
    let mut port = Port::new(5);
    let (alone, _) = port.connect(1);
    let (first, asks) = port.connect(2);
    drop(asks.begin());
    for _ in 0..3 {
        drop(port.connect(2).1.begin());
    }
    drop(port.connect(3).1.begin());
    assert!(is_over(&first).await);
    assert!(!is_over(&alone).await);
}

#[tokio::test(start_paused = true)]
async fn the_result_of_one_search_serves_several_new_connections_unless_something_happened() {
    // Three of these places are reserved, too.
    let mut port = Port::new(4 * RESERVED + 3);
    let few: Vec<_> = (0..RESERVED).map(|_| port.connect(1)).collect();
    let many: Vec<_> = (0..3 * RESERVED).map(|_| port.connect(2)).collect();
    advance(ARRIVAL).await;
    port.connect(3);
    assert_eq!(port.0.losers.len(), 3, "one search for each new connection");
    drop(many[1].1.begin());
    port.connect(3);
    drop(many[3].1.begin());
    advance(SEARCH_AGE * 2).await;
    port.connect(3);
    let mut ended = Vec::new();
    for (at, (task, _)) in many.iter().enumerate() {
        if is_over(task).await {
            ended.push(at);
        }
    }
    assert_eq!(ended, [0, 2, 4], "an old result was used");
    for (task, _) in &few {
        assert!(!is_over(task).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tenant_that_loses_connections_is_served_on_new_ones() {
    let mut port = Port::new(8);
    let idle: Vec<_> = (0..8).map(|_| port.connect(1)).collect();
    for (_, client) in &idle[..6] {
        drop(client.begin());
    }
    let waits = (idle[6].1.begin(), idle[6].1.pause());
    advance(ARRIVAL).await;
    let (new, _) = port.connect(1);
    assert!(is_over(&idle[7].0).await, "it never asked");
    for (at, (task, _)) in idle[..7].iter().enumerate() {
        port.connect(2 + at as u8);
        assert!(!is_over(&new).await, "closed before its request came");
        assert!(is_over(task).await);
    }
    drop(waits);
}

#[tokio::test(start_paused = true)]
async fn new_connections_of_one_client_are_fewer_than_one_idle_one_of_each_of_many() {
    let mut port = Port::new(FEW + 8);
    let mut idle = Vec::new();
    for address in 0..FEW + 8 {
        idle.push(port.connect(100 + address as u8).0);
    }
    advance(ARRIVAL).await;
    let new: Vec<_> = (0..FEW).map(|_| port.connect(1)).collect();
    for (task, _) in &new {
        assert!(!is_over(task).await, "closed before its request came");
    }
    advance(ARRIVAL).await;
    port.connect(2);
    assert!(is_over(&new[0].0).await, "it asked for nothing in time");
    assert!(!is_over(idle.last().unwrap()).await);
}

#[tokio::test]
async fn connections_that_ended_count_for_nothing() {
    let mut port = Port::new(2);
    let (first, _) = port.connect(1);
    for _ in 0..100 {
        let (task, _) = port.connect(1);
        task.abort();
        let _ = task.await;
    }
    assert!(!is_over(&first).await);
}

#[tokio::test]
async fn where_all_of_few_are_served_none_ends_and_the_next_gets_a_reserved_place() {
    let mut port = Port::new(1);
    let (first, client) = port.connect(1);
    let answering = client.begin();
    assert!(!port.0.make_place());
    assert!(!is_over(&first).await);
    let answer = answering.with(Full::new(Bytes::from_static(b"answer")), false);
    assert!(!port.0.make_place());
    drop(answer);
    assert!(port.0.make_place());
    assert!(is_over(&first).await);
}

fn token(id: u64) -> Tenant {
    Tenant::of_token(seqd_state::AccessId(id))
}

#[tokio::test]
async fn a_token_loses_its_own_from_whatever_addresses_they_come() {
    let mut port = Port::new(6);
    let mut tasks = Vec::new();
    for address in 1..=5 {
        let (task, client) = port.connect(address);
        client.charge(token(if address == 1 { 1 } else { 2 }));
        drop(client.begin());
        tasks.push(task);
    }
    for _ in 0..2 {
        let (task, _) = port.connect(9);
        tasks.push(task);
    }
    let mut ended = Vec::new();
    for task in &tasks {
        ended.push(is_over(task).await);
    }
    let expected = [false, true, false, false, false, false, false];
    assert_eq!(ended, expected, "a tenant lost a connection for another's");
}

#[tokio::test]
async fn a_request_that_waits_ends_for_others_after_idle_ones_and_before_served_ones() {
    let mut port = Port::new(3);
    let (served, client) = port.connect(1);
    let _served = client.begin();
    let (waits, client) = port.connect(1);
    let (_request, _pause) = (client.begin(), client.pause());
    let (idle, client) = port.connect(1);
    drop(client.begin());
    let (_a, client) = port.connect(2);
    assert!(is_over(&idle).await && !is_over(&waits).await);
    drop(client.begin());
    let (_b, client) = port.connect(2);
    assert!(
        is_over(&waits).await,
        "a request that waits keeps others out"
    );
    drop(client.begin());
    assert!(!is_over(&served).await);
}

#[tokio::test]
async fn of_a_tenant_with_many_even_a_served_one_ends_and_of_one_with_few_none() {
    let mut port = Port::new(FEW + 2);
    let mut held = Vec::new();
    for _ in 0..2 {
        let (task, client) = port.connect(1);
        held.push((client.begin(), task));
    }
    for _ in 0..FEW {
        let (task, client) = port.connect(2);
        held.push((client.begin(), task));
    }
    assert!(port.0.make_place());
    let mut ended = Vec::new();
    for (_, task) in &held {
        ended.push(is_over(task).await);
    }
    assert!(ended[2], "its oldest");
    assert_eq!(ended.iter().filter(|over| **over).count(), 1);
    let (_task, client) = port.connect(3);
    let _third = client.begin();
    assert!(!port.0.make_place(), "all have few");
}

#[tokio::test]
async fn idle_connections_of_many_addresses_end_before_a_served_one_of_a_larger_tenant() {
    let (addresses, idle_of_each, served) = (5, FEW - 3, 2 * FEW);
    let mut port = Port::new(addresses * idle_of_each + served);
    let mut held = Vec::new();
    for _ in 0..served {
        let (task, client) = port.connect(100);
        client.charge(token(1));
        held.push((client.begin(), task));
    }
    let mut idle = Vec::new();
    for address in 0..addresses {
        idle.extend((0..idle_of_each).map(|_| port.connect(address as u8).0));
    }
    assert!(port.0.make_place());
    for (_, task) in &held {
        assert!(!is_over(task).await, "a served one ended for idle ones");
    }
    assert!(is_over(&idle[0]).await);
}

#[tokio::test]
async fn idle_connections_of_small_tenants_stay_where_one_tenant_s_served_ones_fill_the_port() {
    let (addresses, idle_of_each, served) = (5, 3, 2 * FEW);
    let mut port = Port::new(addresses * idle_of_each + served);
    let mut idle = Vec::new();
    for address in 0..addresses {
        idle.extend((0..idle_of_each).map(|_| port.connect(address as u8).0));
    }
    let mut held = Vec::new();
    for _ in 0..served {
        let (task, client) = port.connect(100);
        held.push((client.begin(), task));
    }
    assert!(port.0.make_place());
    for task in &idle {
        assert!(!is_over(task).await, "a small tenant lost an idle one");
    }
    assert!(is_over(&held[0].1).await);
}

fn answer(client: &ClientConnection, bytes: usize) {
    let body = Full::<Bytes>::new(vec![b'x'; bytes].into());
    drop(client.begin().with(body, false));
}

#[tokio::test]
async fn the_tenant_that_has_most_to_take_loses_connections_although_it_takes_a_little() {
    let mut port = Port::new(6);
    let (slow, client) = port.connect(1);
    answer(&client, 30);
    let mut held: Vec<_> = (0..4).map(|_| port.connect(2)).collect();
    for (_, client) in &held {
        answer(client, 20);
        client.sent(1);
    }
    port.0.relieve();
    // The task of the first connection has not ended yet.
    assert_eq!(port.0.shared.unsent.load(Ordering::Relaxed), 87);
    port.0.relieve();
    assert!(is_over(&held[0].0).await);
    assert!(!is_over(&slow).await, "it owes less than the other tenant");
    assert!(!is_over(&held[1].0).await, "ended for bytes of another");
    answer(&held[1].1, 20);
    port.0.relieve();
    let mut ended = Vec::new();
    for (task, _) in held.drain(1..) {
        ended.push(is_over(&task).await);
    }
    // The first of these has received a response meanwhile.
    assert_eq!(ended, [false, true, false]);
    assert_eq!(port.0.shared.unsent.load(Ordering::Relaxed), 88);
}

#[tokio::test]
async fn the_connection_that_has_read_nothing_for_longest_ends_when_too_much_is_unsent() {
    let mut port = Port::new(5);
    let (first, takes) = port.connect(1);
    let (second, stalls) = port.connect(1);
    let (third, late) = port.connect(1);
    answer(&takes, 50);
    answer(&stalls, 50);
    takes.sent(10);
    assert!(port.0.too_much().now_or_never().is_none());
    answer(&late, 50);
    assert!(port.0.too_much().now_or_never().is_some());
    port.0.relieve();
    assert!(is_over(&second).await);
    assert!(!is_over(&first).await && !is_over(&third).await);
    assert_eq!(port.0.shared.unsent.load(Ordering::Relaxed), 90);
    takes.sent(1000);
    late.sent(1000);
    assert_eq!(port.0.shared.unsent.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_body_that_is_streamed_or_of_unknown_length_counts_as_it_comes() {
    use http_body_util::{BodyExt, StreamBody};
    let mut port = Port::new(2);
    let (task, client) = port.connect(1);
    let long = Full::<Bytes>::new(vec![b'x'; 1_000_000].into());
    drop(client.begin().with(long, true));
    assert!(port.0.too_much().now_or_never().is_none());
    assert!(
        !is_over(&task).await,
        "ended for bytes that are not in memory"
    );
    let (_task, client) = port.connect(1);
    let frames = [b"one".as_slice(), b"three"].map(|part| Ok::<_, Infallible>(Frame::data(part)));
    let mut body = client
        .begin()
        .with(StreamBody::new(futures_util::stream::iter(frames)), false);
    let unsent = |port: &Port| port.0.shared.unsent.load(Ordering::Relaxed);
    for expected in [3, 8] {
        body.frame().await.unwrap().unwrap();
        assert_eq!(unsent(&port), expected);
    }
}
