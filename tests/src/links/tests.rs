//! Tests of the rules with packets that are never sent, and of the links under the kernel's TCP.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::packet::Seen;
use super::rules::{PacketVerdict, Rules};
use super::*;
use crate::skips;
use crate::wait;

/// The time after which nothing more arrives.
const PATIENCE: Duration = Duration::from_secs(10);

fn packet(from: Host, to: Host, bytes: usize) -> Seen {
    Seen {
        from,
        to,
        bytes,
        segment: None,
    }
}

#[test]
fn a_rule_binds_its_pairs_in_its_direction_and_only_while_it_lasts() {
    let mut rules = Rules::new(Random::seeded(1));
    let (a, b) = (Host::node(0), Host::node(1));
    let now = Instant::now();
    let passes = PacketVerdict::Pass { at: now };
    let (number, touched) = rules.add(Pairs::one_way(&[0], &[1]), Condition::Cut);
    assert_eq!(rules.verdict(now, &packet(a, b, 100)), PacketVerdict::Drop);
    assert_eq!(rules.verdict(now, &packet(b, a, 100)), passes);
    rules.remove(number);
    assert_eq!(rules.verdict(now, &packet(a, b, 100)), passes);
    assert_eq!(touched.load(Ordering::Relaxed), 1);
}

#[test]
fn delays_add_up_and_a_share_is_lost() {
    let mut rules = Rules::new(Random::seeded(7));
    let (a, b) = (Host::node(0), Host::node(1));
    let now = Instant::now();
    let delay = Duration::from_millis(25);
    rules.add(Pairs::all(2), Condition::Delay(delay));
    rules.add(Pairs::one_way(&[0], &[1]), Condition::Delay(delay));
    let at = |delay| PacketVerdict::Pass { at: now + delay };
    assert_eq!(rules.verdict(now, &packet(a, b, 100)), at(2 * delay));
    assert_eq!(rules.verdict(now, &packet(b, a, 100)), at(delay));
    let (_, touched) = rules.add(Pairs::all(2), Condition::Loss(0.02));
    for _ in 0..100_000 {
        rules.verdict(now, &packet(b, a, 100));
    }
    let lost = touched.load(Ordering::Relaxed);
    assert!((1_800..2_200).contains(&lost), "{lost} of 100,000 at 2 %");
}

#[test]
fn a_slow_cable_is_shared_by_all_that_passes_it_and_by_nothing_else() {
    let mut rules = Rules::new(Random::seeded(1));
    let (a, b, c) = (Host::node(0), Host::node(1), Host::node(2));
    let now = Instant::now();
    // 1,250 bytes take one millisecond.
    let slow = Condition::Rate(Nodes::of(&[1]), 10e6);
    rules.add(Pairs::cables(&[1]), slow);
    let after = |ms| PacketVerdict::Pass {
        at: now + Duration::from_millis(ms),
    };
    assert_eq!(rules.verdict(now, &packet(a, b, 1250)), after(1));
    assert_eq!(rules.verdict(now, &packet(c, b, 1250)), after(2));
    let from_harness = packet(Host::HARNESS, b, 1250);
    assert_eq!(rules.verdict(now, &from_harness), after(3));
    assert_eq!(rules.verdict(now, &packet(b, a, 1250)), after(1));
    assert_eq!(rules.verdict(now, &packet(a, c, 1250)), after(0));
    let full = (0..200).find(|_| rules.verdict(now, &packet(a, b, 1250)) == PacketVerdict::Drop);
    assert_eq!(full, Some(98), "100 ms of packets fit in the queue");
}

/// Returns whether a test of the links must be skipped.
fn no_links(test: &str) -> bool {
    skips::ends(test, unavailable())
}

/// Starts a server on a node's host that echoes, one connection after another.
fn echo(links: &Links, node: usize, connections: usize) -> (SocketAddr, JoinHandle<()>) {
    let address = format!("{}:9000", links.address(Host::node(node)));
    let listener = links.inside(node, || TcpListener::bind(address).expect("a free host"));
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            let mut stream = stream.expect("a connection");
            let mut bytes = [0; 64 << 10];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                if stream.write_all(&bytes[..length]).is_err() {
                    break;
                }
            }
        }
    });
    (address, server)
}

fn connected(links: &Links, from: usize, to: SocketAddr) -> TcpStream {
    let stream = links.inside(from, || TcpStream::connect(to).expect("a connection"));
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn round_trip(stream: &mut TcpStream) -> Duration {
    let begin = Instant::now();
    stream.write_all(b"x").expect("a byte is sent");
    stream.read_exact(&mut [0]).expect("a byte comes back");
    begin.elapsed()
}

#[test]
fn hosts_reach_each_other_and_delays_are_kept() {
    if no_links("hosts reach each other") {
        return;
    }
    let links = Links::new(2);
    let (address, server) = echo(&links, 1, 1);
    let mut stream = connected(&links, 0, address);
    round_trip(&mut stream);
    let delay = Duration::from_millis(25);
    let fault = links.impose(Pairs::all(2), Condition::Delay(delay));
    let trip = round_trip(&mut stream);
    assert!(trip >= 2 * delay, "a round trip took {trip:?}");
    assert!(fault.heal() >= 2);
    let least = (0..20).map(|_| round_trip(&mut stream)).min().unwrap();
    assert!(least < delay, "{least:?} after the delay ended");
    drop(stream);
    server.join().unwrap();
    assert_eq!(links.overflowed(), 0);
}

#[test]
fn a_slow_cable_is_limited_to_its_rate() {
    if no_links("a slow cable") {
        return;
    }
    let links = Links::new(2);
    let (address, server) = echo(&links, 1, 1);
    let stream = connected(&links, 0, address);
    let fault = links.slow(&[1], 100e6);
    let bytes = 2_000_000;
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| (&stream).write_all(&vec![7; bytes]).unwrap());
        let mut back = vec![0; bytes];
        (&stream).read_exact(&mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == 7));
    });
    let took = begin.elapsed();
    // 2 MB are 16 Mbit, and the buffer absorbs the beginning of a connection.
    assert!(took >= Duration::from_millis(150), "{took:?}");
    assert!(fault.heal() > 1_000);
    drop(stream);
    server.join().unwrap();
}

#[test]
fn a_cut_is_silent_and_a_refusal_and_a_reset_are_seen_at_once() {
    if no_links("cut, refused, reset") {
        return;
    }
    let links = Links::new(2);
    let (address, server) = echo(&links, 1, 2);
    let mut stream = connected(&links, 0, address);
    round_trip(&mut stream);

    let refused = links.impose(Pairs::one_way(&[0], &[1]), Condition::Refused);
    let error = links.inside(0, || {
        TcpStream::connect(address).expect_err("no connection")
    });
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    round_trip(&mut stream);
    refused.heal();

    let cut = links.impose(Pairs::one_way(&[0], &[1]), Condition::Cut);
    stream.write_all(b"x").unwrap();
    wait::until("it is dropped", PATIENCE, || {
        (cut.touched() > 0).then_some(())
    });
    let short = Some(Duration::from_millis(300));
    stream.set_read_timeout(short).unwrap();
    let error = stream.read_exact(&mut [0]).expect_err("nothing passes");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    cut.heal();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .read_exact(&mut [0])
        .expect("the kernel sends it again");

    let reset = links.impose(Pairs::between(&[0], &[1]), Condition::Reset);
    let _ = stream.write_all(b"x");
    let error = stream.read_exact(&mut [0]).expect_err("it broke");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    reset.heal();
    let mut stream = connected(&links, 0, address);
    round_trip(&mut stream);
    assert_eq!(links.break_connections(0, 1), 1, "it is idle, and breaks");
    let error = stream.read_exact(&mut [0]).expect_err("it broke");
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    server.join().unwrap();
}
