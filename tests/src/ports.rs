//! Free TCP ports on loopback that stay reserved while a node is down.
//!
//! Any outgoing connection could take a port from the ephemeral range between a node's kill and its
//! restart, so ports are chosen below that range. Test processes reserve a port by binding a UDP
//! socket with the same number, which the OS permits to one process at a time and frees when the
//! process ends.

use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

/// The range of ports: above the well-known services, below Linux's ephemeral range (32768).
const LOWEST: u32 = 12_000;
const HIGHEST: u32 = 32_000;

/// The first of the ports whose reservations represent network numbers, and the number of networks.
const NETWORKS: u16 = 11_600;
const MOST_NETWORKS: u8 = 250;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A network number on this machine that no other harness takes while this value lives.
#[derive(Debug)]
pub struct Number {
    value: u8,
    _reservation: UdpSocket,
}

impl Number {
    pub fn free() -> Self {
        for value in 0..MOST_NETWORKS {
            let port = NETWORKS + u16::from(value);
            if let Ok(reservation) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) {
                return Self {
                    value,
                    _reservation: reservation,
                };
            }
        }
        panic!("all of {MOST_NETWORKS} networks are taken");
    }

    pub fn value(&self) -> u8 {
        self.value
    }
}

/// A TCP port on 127.0.0.1 that no other harness takes while this value lives.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _reservation: UdpSocket,
}

impl Port {
    pub fn free() -> Self {
        let span = HIGHEST - LOWEST;
        // Processes start at different ports, so that they rarely collide.
        let begin = std::process::id().wrapping_mul(97);
        for _ in 0..span {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let number = LOWEST + begin.wrapping_add(step) % span;
            let number = u16::try_from(number).expect("the range ends below 65536");
            let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, number);
            let Ok(reservation) = UdpSocket::bind(address) else {
                continue;
            };
            if TcpListener::bind(address).is_ok() {
                return Self {
                    number,
                    _reservation: reservation,
                };
            }
        }
        panic!("no free port between {LOWEST} and {HIGHEST}");
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}
