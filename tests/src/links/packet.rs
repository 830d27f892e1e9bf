//! The fields of a packet that the relay reads, and the packets that it sends itself.

use std::net::Ipv4Addr;

use etherparse::{Ipv4HeaderSlice, PacketBuilder, TcpHeaderSlice};

use super::pairs::Host;

/// The protocol number of TCP in an IPv4 header.
const TCP: u8 = 6;

/// The time to live of packets that the relay makes. They pass no router.
const HOPS: u8 = 64;

/// The fields by which the rules decide about a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) from: Host,
    pub(super) to: Host,
    pub(super) bytes: usize,
    pub(super) segment: Option<Segment>,
}

/// The fields of a TCP segment that concern its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    /// Source and destination.
    addresses: [Ipv4Addr; 2],
    ports: [u16; 2],
    sequence: u32,
    /// The sequence number after this segment.
    end: u32,
    acknowledged: Option<u32>,
    pub(super) opens: bool,
    pub(super) resets: bool,
}

/// Reads a packet between two hosts of one network. Returns `None` for any other packet.
pub(super) fn read(packet: &[u8]) -> Option<Seen> {
    let ip = Ipv4HeaderSlice::from_slice(packet).ok()?;
    let (source, destination) = (ip.source_addr(), ip.destination_addr());
    let from = Host::of_address(source)?;
    let to = Host::of_address(destination)?;
    if source.octets()[..3] != destination.octets()[..3] || from == to {
        return None;
    }
    let segment = if ip.protocol().0 == TCP {
        let tcp = TcpHeaderSlice::from_slice(packet.get(ip.slice().len()..)?).ok()?;
        let heads = ip.slice().len() + tcp.slice().len();
        let payload = usize::from(ip.total_len()).checked_sub(heads)?;
        let length = u32::try_from(payload).ok()? + u32::from(tcp.syn()) + u32::from(tcp.fin());
        Some(Segment {
            addresses: [source, destination],
            ports: [tcp.source_port(), tcp.destination_port()],
            sequence: tcp.sequence_number(),
            end: tcp.sequence_number().wrapping_add(length),
            acknowledged: tcp.ack().then(|| tcp.acknowledgment_number()),
            opens: tcp.syn() && !tcp.ack(),
            resets: tcp.rst(),
        })
    } else {
        None
    };
    Some(Seen {
        from,
        to,
        bytes: packet.len(),
        segment,
    })
}

impl Segment {
    /// The reset that the sender accepts as one of the receiver.
    pub(super) fn reset_of_sender(&self) -> Vec<u8> {
        let sequence = self.acknowledged.unwrap_or(0);
        self.reset([1, 0], sequence, Some(self.end))
    }

    /// The reset that the receiver accepts as one of the sender.
    pub(super) fn reset_of_receiver(&self) -> Vec<u8> {
        self.reset([0, 1], self.sequence, self.acknowledged)
    }

    /// A reset from one of the two ends to the other. Both are indices.
    fn reset(&self, [from, to]: [usize; 2], sequence: u32, acknowledged: Option<u32>) -> Vec<u8> {
        let source = self.addresses[from].octets();
        let destination = self.addresses[to].octets();
        let ip = PacketBuilder::ipv4(source, destination, HOPS);
        let tcp = ip.tcp(self.ports[from], self.ports[to], sequence, 0).rst();
        let tcp = match acknowledged {
            Some(number) => tcp.ack(number),
            None => tcp,
        };
        let mut packet = Vec::with_capacity(tcp.size(0));
        let written = tcp.write(&mut packet, &[]);
        written.expect("a vector takes it");
        packet
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(payload: &[u8]) -> Vec<u8> {
        let ip = PacketBuilder::ipv4([10, 201, 3, 1], [10, 201, 3, 2], HOPS);
        let tcp = ip.tcp(4000, 7401, 100, 1000).ack(70);
        let mut packet = Vec::new();
        tcp.write(&mut packet, payload).unwrap();
        packet
    }

    #[test]
    fn resets_carry_what_each_end_expects_next() {
        let seen = read(&segment(b"12345")).unwrap();
        assert_eq!((seen.from, seen.to), (Host::node(0), Host::node(1)));
        let segment = seen.segment.unwrap();
        let back = read(&segment.reset_of_sender()).unwrap();
        assert_eq!((back.from, back.to), (Host::node(1), Host::node(0)));
        let back = back.segment.unwrap();
        assert!(back.resets);
        assert_eq!((back.sequence, back.acknowledged), (70, Some(105)));
        let forth = read(&segment.reset_of_receiver()).unwrap().segment.unwrap();
        assert_eq!((forth.sequence, forth.acknowledged), (100, Some(70)));
        assert_eq!(forth.ports, [4000, 7401]);
    }

    #[test]
    fn packets_of_other_networks_are_left_out() {
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[0x60; 40]), None, "a packet of IPv6");
        let whole = segment(b"12345");
        for length in 0..whole.len().min(40) {
            assert_eq!(read(&whole[..length]), None, "{length} bytes of a packet");
        }
        let mut elsewhere = whole;
        elsewhere[18] = 4;
        assert_eq!(read(&elsewhere), None, "a host of another network");
    }
}
