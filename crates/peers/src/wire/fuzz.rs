//! Fuzz targets that accept any bytes: frames and connections of the peers' port.
//! `docs/internals/FUZZING.md` lists the targets.
//!
//! A target panics when a guarantee is violated. The tests below run the stored inputs of
//! `tests/fuzz/corpus`, so that these are checked without a fuzzer too.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use seqd_store::disk_errors::is_newer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_util::codec::{Decoder, Encoder};

use super::frame::{Frame, FrameCodec, VERSION};
use super::incoming::{Body, Handler, Replying};
use super::places::Places;
use super::route::Route;
use super::serving;
use super::transport::{Link, Rejection};
use crate::watched::Watched;

/// The longest error message about unreadable bytes.
const MOST_WORDS: usize = 1024;

/// The buffer of a connection, larger than the responses to any input.
const BUFFER: usize = 4 << 20;

/// Expands a short form into frames: a little-endian length of two bytes, then kind, call and body.
/// It adds the checksum, which a fuzzer cannot guess.
fn framed(mut short: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some((length, rest)) = short.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (content, rest) = rest.split_at(length);
        short = rest;
        all.extend_from_slice(&(content.len() as u32 + 4).to_le_bytes());
        all.extend_from_slice(&crc32c::crc32c(content).to_le_bytes());
        all.extend_from_slice(content);
    }
    all
}

/// Decodes the frames of these bytes. The second value is whether an error ended them.
fn frames(bytes: &[u8], piece: usize) -> (Vec<(Frame, usize)>, bool) {
    let (mut codec, mut buffer) = (FrameCodec::default(), BytesMut::new());
    let (mut found, mut fed, mut done) = (Vec::new(), 0, 0);
    for piece in bytes.chunks(piece) {
        buffer.extend_from_slice(piece);
        fed += piece.len();
        loop {
            match codec.decode(&mut buffer) {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    let at = fed - buffer.len();
                    found.push((frame, at - done));
                    done = at;
                }
                Err(error) => {
                    worded(&error);
                    return (found, true);
                }
            }
        }
    }
    (found, false)
}

/// The bytes of a connection between nodes. The first byte selects the size of the pieces in which
/// they arrive, and whether the rest is used unchanged or expanded (see `framed`).
///
/// The pieces must make no difference. A decoded frame is encoded and decoded to the same frame,
/// and to the same bytes if its kind has only one encoding.
pub fn peer_frames(input: &[u8]) {
    let Some((how, rest)) = input.split_first() else {
        return;
    };
    let bytes = if how & 1 == 0 {
        framed(rest)
    } else {
        rest.to_vec()
    };
    let (found, _) = frames(&bytes, bytes.len().max(1));
    let (in_pieces, _) = frames(&bytes, usize::from(how >> 1) + 1);
    assert!(
        found
            .iter()
            .map(|(frame, _)| frame)
            .eq(in_pieces.iter().map(|(frame, _)| frame))
    );
    let mut at = 0;
    for (frame, length) in found {
        let own = &bytes[at..at + length];
        at += length;
        let mut written = BytesMut::new();
        if let Err(error) = FrameCodec::default().encode(&frame, &mut written) {
            panic!("{frame:?} cannot be written: {error}");
        }
        // A later version may have more fields in its opening, and a text is truncated and made
        // valid UTF-8.
        if !matches!(frame, Frame::Opening { .. } | Frame::Rejection { .. }) {
            assert_eq!(own, &written[..], "{frame:?}");
        }
        match FrameCodec::default().decode(&mut written) {
            Ok(Some(again)) => match (&again, &frame) {
                (Frame::Rejection { text: again, .. }, Frame::Rejection { text, .. }) => {
                    assert!(text.len() > 4000 || again == text);
                }
                _ => assert_eq!(again, frame),
            },
            other => panic!("{frame:?} became {other:?}"),
        }
    }
    assert!(at <= bytes.len());
}

/// Reads the bodies of calls and responds with them. `Watch` receives no response.
struct Echo;

impl Handler for Echo {
    fn handle(self: Arc<Self>, route: Route, mut body: Body) -> Replying {
        Box::pin(async move {
            match route {
                Route::Watch => std::future::pending().await,
                Route::Snapshot => {
                    let mut bytes = 0;
                    while let Some(part) = body.next().await? {
                        bytes += part.len();
                    }
                    Ok(Bytes::from(bytes.to_le_bytes().to_vec()))
                }
                _ => {
                    body.first().await?;
                    Ok::<_, Rejection>(body.collect(48 << 10).await?.bytes)
                }
            }
        })
    }
}

/// A whole connection at its receiving side. The first byte selects a link or none, and the rest is
/// expanded (see `framed`).
///
/// The connection ends with its bytes, the response consists of valid frames, and each call ends at
/// most once.
pub fn peer_connection(input: &[u8]) {
    let Some((link, rest)) = input.split_first() else {
        return;
    };
    let mut bytes = BytesMut::new();
    if let Some(link) = Link::ALL.get(usize::from(*link)) {
        let opening = Frame::Opening {
            version: VERSION,
            link: link.byte(),
        };
        if let Err(error) = FrameCodec::default().encode(&opening, &mut bytes) {
            panic!("{opening:?} cannot be written: {error}");
        }
    }
    bytes.extend_from_slice(&framed(rest));
    let answers = in_a_runtime(async {
        let (mut near, far) = duplex(BUFFER);
        let wrote = near.write_all(&bytes).await;
        assert!(wrote.is_ok() && near.shutdown().await.is_ok());
        let stopping = Arc::new(Watched::new(false));
        let place = Places::of(2).enter(None, None);
        serving::serve(far, place, Arc::new(Echo), stopping).await;
        let mut answers = Vec::new();
        let read = near.read_to_end(&mut answers).await;
        assert!(read.is_ok());
        answers
    });
    let (answers, is_broken) = frames(&answers, answers.len().max(1));
    assert!(!is_broken, "what was answered are no frames");
    let mut ended = BTreeSet::new();
    for (frame, _) in answers {
        let call = match &frame {
            Frame::Answer { call, part } if part.is_last => *call,
            Frame::Rejection { call, .. } => *call,
            _ => continue,
        };
        assert!(ended.insert(call), "a second end of call {call}");
    }
}

/// Runs a future that never waits for external events. Time advances immediately when nothing else
/// can run, because calls have limits that the input determines.
fn in_a_runtime<T>(future: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: io::Result<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build();
    }
    RUNTIME.with(|runtime| match runtime {
        Ok(runtime) => runtime.block_on(future),
        Err(error) => panic!("no runtime: {error}"),
    })
}

fn worded(error: &io::Error) {
    let words = error.to_string();
    assert!(!words.is_empty() && words.len() <= MOST_WORDS, "{words}");
    let _ = is_newer(error);
}

#[cfg(test)]
mod tests {
    use super::super::frame::Part;
    use super::*;
    use crate::kept::{replay, seeds};

    fn part(is_last: bool, bytes: &'static [u8]) -> Part {
        let bytes = Bytes::from_static(bytes);
        Part { is_last, bytes }
    }

    fn call(call: u64, route: Route, part: Part) -> Frame {
        Frame::Call {
            call,
            route: route.byte(),
            limit_ms: 3000,
            part,
        }
    }

    fn every_frame() -> Vec<Frame> {
        vec![
            Frame::Opening {
                version: VERSION,
                link: Link::Control.byte(),
            },
            call(1, Route::Ping, part(true, b"ab")),
            call(2, Route::Append, part(false, b"c")),
            Frame::Part {
                call: 2,
                part: part(true, b"d"),
            },
            call(3, Route::Watch, part(true, b"")),
            Frame::Cancel { call: 3 },
            call(4, Route::Snapshot, part(false, b"efgh")),
            Frame::Credit { call: 0, bytes: 99 },
            Frame::Answer {
                call: 9,
                part: part(true, b"i"),
            },
            Frame::Rejection {
                call: 0,
                text: "malformed: why".to_owned(),
            },
        ]
    }

    fn bytes(frame: &Frame) -> Vec<u8> {
        let mut bytes = BytesMut::new();
        FrameCodec::default().encode(frame, &mut bytes).unwrap();
        bytes.to_vec()
    }

    /// Returns the frame in the short form that `framed` reads.
    fn short(frame: &Frame) -> Vec<u8> {
        let content = &bytes(frame)[8..];
        let length = u16::try_from(content.len()).unwrap();
        [&length.to_le_bytes()[..], content].concat()
    }

    #[test]
    fn kept_frames_are_read_or_refused_with_words() {
        let all = every_frame();
        let whole = all.iter().flat_map(bytes);
        let in_short = all.iter().flat_map(short);
        let inputs = [
            [1].into_iter().chain(whole).collect(),
            [6].into_iter().chain(in_short).collect(),
        ];
        let each = all.iter().map(|frame| [&[0][..], &short(frame)].concat());
        replay(
            "peer_frames",
            &seeds(inputs.into_iter().chain(each)),
            peer_frames,
        );
    }

    #[test]
    fn kept_connections_end_and_answer_each_call_once() {
        let calls = every_frame().split_off(1);
        let calls: Vec<u8> = calls.iter().flat_map(short).collect();
        let inputs = (0..6).map(|link| [&[link][..], &calls].concat());
        replay("peer_connection", &seeds(inputs), peer_connection);
    }
}
