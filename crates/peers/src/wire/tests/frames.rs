//! The bytes of frames, and the handling of invalid bytes.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use tokio_util::codec::{Decoder, Encoder};

use crate::wire::frame::{Frame, FrameCodec, Part, VERSION};
use crate::wire::route::Route;
use crate::wire::transport::Link;

/// More than the longest frame including its length.
const MOST_RESERVED: usize = (64 << 10) + 32;

fn part(is_last: bool, bytes: &'static [u8]) -> Part {
    let bytes = Bytes::from_static(bytes);
    Part { is_last, bytes }
}

fn encoded(frame: &Frame) -> BytesMut {
    let mut bytes = BytesMut::new();
    FrameCodec::default().encode(frame, &mut bytes).unwrap();
    bytes
}

fn decoded(mut bytes: BytesMut) -> Frame {
    let frame = FrameCodec::default().decode(&mut bytes).unwrap().unwrap();
    assert!(bytes.is_empty());
    frame
}

#[test]
fn the_bytes_of_frames_are_fixed() {
    let frames = [
        (
            Frame::Opening {
                version: VERSION,
                link: Link::Log.byte(),
            },
            "18000000e5342c610100000000000000007365716470656572010001",
        ),
        (
            Frame::Call {
                call: 7,
                route: Route::Forward.byte(),
                limit_ms: 3000,
                part: part(false, b"ab"),
            },
            "15000000f1a8875e02070000000000000006b80b0000006162",
        ),
        (
            Frame::Part {
                call: 7,
                part: part(true, b"c"),
            },
            "0f00000032afe00c0307000000000000000163",
        ),
        (
            Frame::Answer {
                call: 7,
                part: part(true, b"d"),
            },
            "0f0000008d974b320407000000000000000164",
        ),
        (
            Frame::Rejection {
                call: 7,
                text: "removed: why".to_owned(),
            },
            "19000000efcfe0cd05070000000000000072656d6f7665643a20776879",
        ),
        (
            Frame::Credit { call: 7, bytes: 9 },
            "1100000074d1e3a306070000000000000009000000",
        ),
        (
            Frame::Cancel { call: 7 },
            "0d000000bda3dc86070700000000000000",
        ),
    ];
    for (frame, golden) in frames {
        let bytes = encoded(&frame);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden, "{frame:?}");
        assert_eq!(decoded(bytes), frame);
    }
}

#[test]
fn routes_and_links_keep_their_bytes() {
    let routes: Vec<u8> = Route::ALL.iter().map(|route| route.byte()).collect();
    assert_eq!(routes, (1..=20).collect::<Vec<u8>>());
    let links = Link::ALL.map(Link::byte);
    assert_eq!(links, [1, 2, 3, 4, 5]);
}

#[test]
fn an_opening_of_a_later_version_may_be_longer() {
    let mut bytes = encoded(&Frame::Opening {
        version: VERSION + 1,
        link: 9,
    });
    // An additional byte, with matching length and checksum.
    let body = [&bytes[8..], b"x"].concat();
    let length = u32::try_from(4 + body.len()).unwrap();
    let checksum = crc32c::crc32c(&body);
    bytes.clear();
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(&body);
    let opening = Frame::Opening {
        version: VERSION + 1,
        link: 9,
    };
    assert_eq!(decoded(bytes), opening);
}

#[test]
fn a_request_of_http_is_an_error_at_its_first_bytes() {
    let mut bytes = BytesMut::from(&b"POST /raft/append HTTP/1.1\r\n"[..]);
    assert!(FrameCodec::default().decode(&mut bytes).is_err());
}

#[test]
fn a_long_text_is_cut_off() {
    let text = "\u{e4}".repeat(10_000);
    let Frame::Rejection { text, .. } = decoded(encoded(&Frame::Rejection { call: 1, text }))
    else {
        panic!("a rejection stays one");
    };
    assert_eq!(text.len(), 4 << 10);
}

fn frames() -> impl Strategy<Value = Frame> {
    let part =
        (any::<bool>(), prop::collection::vec(any::<u8>(), 0..300)).prop_map(|(is_last, bytes)| {
            Part {
                is_last,
                bytes: bytes.into(),
            }
        });
    let part = part.boxed();
    prop_oneof![
        any::<(u16, u8)>().prop_map(|(version, link)| Frame::Opening { version, link }),
        (any::<(u64, u8, u32)>(), part.clone()).prop_map(|((call, route, limit_ms), part)| {
            Frame::Call {
                call,
                route,
                limit_ms,
                part,
            }
        }),
        (any::<u64>(), part.clone()).prop_map(|(call, part)| Frame::Part { call, part }),
        (any::<u64>(), part).prop_map(|(call, part)| Frame::Answer { call, part }),
        (any::<u64>(), ".{0,40}").prop_map(|(call, text)| Frame::Rejection { call, text }),
        any::<(u64, u32)>().prop_map(|(call, bytes)| Frame::Credit { call, bytes }),
        any::<u64>().prop_map(|call| Frame::Cancel { call }),
    ]
}

proptest! {
    #[test]
    fn every_frame_comes_back(frame in frames()) {
        prop_assert_eq!(decoded(encoded(&frame)), frame);
    }

    #[test]
    fn any_bytes_are_frames_or_an_error_within_the_limit(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = BytesMut::from(&bytes[..]);
        let mut codec = FrameCodec::default();
        while let Ok(Some(_)) = codec.decode(&mut bytes) {}
        prop_assert!(bytes.capacity() <= MOST_RESERVED);
    }

    #[test]
    fn a_frame_with_a_changed_bit_or_a_cut_is_refused(frame in frames(), at in any::<prop::sample::Index>(), bit in 0_u32..8) {
        let bytes = encoded(&frame);
        let at = at.index(bytes.len());
        let mut changed = bytes.clone();
        changed[at] ^= 1_u8 << bit;
        let found = FrameCodec::default().decode(&mut changed);
        prop_assert!(!matches!(found, Ok(Some(_))), "{:?}", found);
        let mut cut = BytesMut::from(&bytes[..at]);
        prop_assert!(matches!(FrameCodec::default().decode(&mut cut), Ok(None)));
    }
}
