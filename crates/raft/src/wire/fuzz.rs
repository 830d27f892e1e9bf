//! What a fuzzer calls, with any bytes: frames, connections and messages of the peers' port.
//! `docs/internals/FUZZING.md` has the targets.
//!
//! A target panics where a promise is broken. The kept inputs of `fuzz/corpus` are run by the tests
//! below, so that they are checked without a fuzzer too.

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use seqd_state::codec::Versioned;
use seqd_state::codec::frame::read_all;
use seqd_state::{Command, Outcome, codec};
use seqd_store::faults::is_newer;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio_util::codec::{Decoder, Encoder};

use super::frame::{Frame, FrameCodec, VERSION};
use super::incoming::{Body, Handler, Replying};
use super::messages::*;
use super::places::Places;
use super::route::Route;
use super::transport::{Link, Rejection};
use super::{sealed, serving};
use crate::records::{EntryRecord, Restore, StoredMembershipRecord};
use crate::watched::Watched;

/// The longest words about bytes that cannot be read.
const MOST_WORDS: usize = 1024;

/// What a connection holds under way: more than the answers to any input.
const BUFFER: usize = 4 << 20;

/// Frames out of a short form: a length of two bytes, little-endian, and kind, call and body. What
/// a fuzzer cannot guess, the checksum, is added.
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

/// The frames of these bytes, and whether something else ended them.
fn frames(bytes: &[u8], piece: usize) -> (Vec<(Frame, usize)>, bool) {
    let (mut codec, mut buffer) = (FrameCodec::new(), BytesMut::new());
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

/// Bytes of a connection between nodes. The first byte says in what pieces they come, and whether
/// the rest is as it is or short (see `framed`).
///
/// The pieces make no difference; a frame that is read is written as the same frame, and as the
/// same bytes where its kind has one form.
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
        if let Err(error) = FrameCodec::new().encode(&frame, &mut written) {
            panic!("{frame:?} cannot be written: {error}");
        }
        // A later version may have more in its opening, and a text is cut and mended.
        if !matches!(frame, Frame::Opening { .. } | Frame::Rejection { .. }) {
            assert_eq!(own, &written[..], "{frame:?}");
        }
        match FrameCodec::new().decode(&mut written) {
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

/// Takes what calls carry, and answers with it; `Watch` is not answered.
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

/// A whole connection at its receiving side. The first byte chooses a link or none, the rest is
/// short (see `framed`).
///
/// It ends with its bytes, what is answered are frames, and each call is ended once at most.
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
        if let Err(error) = FrameCodec::new().encode(&opening, &mut bytes) {
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

/// Runs to the end what never waits for anything from outside. Time passes at once where nothing
/// else is to be done: calls have limits that the input states.
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

/// A message: its first byte is its kind, or 0 before an envelope and a message behind that.
///
/// What is read is written so that it is read as the same; entries and memberships in it are taken
/// or refused with words.
pub fn peer_message(input: &[u8]) {
    let message = match input {
        [0, sealed @ ..] => match sealed::unseal(sealed) {
            Ok((envelope, message)) => {
                one(&sealed[4..sealed.len() - message.len()], &|_: &Envelope| {});
                assert!(!format!("{envelope:?}").is_empty());
                message
            }
            Err(error) => return worded(&error),
        },
        message => message,
    };
    if let Some(kind) = message.first() {
        by_kind(*kind, message);
    }
}

/// Reads a message of one type. Returns whether it is one.
fn one<M: Versioned>(bytes: &[u8], look: &dyn Fn(&M)) -> Option<M> {
    let message = match sealed::decode::<M>(bytes) {
        Ok(message) => message,
        Err(error) => {
            worded(&error);
            return None;
        }
    };
    let written = written(&message);
    // A set or a map may name something twice.
    assert!(written.len() <= bytes.len());
    match sealed::decode::<M>(&written) {
        Ok(again) => assert_eq!(self::written(&again), written),
        Err(error) => panic!("what was written cannot be read: {error}"),
    }
    look(&message);
    Some(message)
}

fn written<M: Versioned>(message: &M) -> Vec<u8> {
    match codec::encode(message) {
        Ok(bytes) => bytes,
        Err(error) => panic!("what was read cannot be written: {error}"),
    }
}

fn by_kind(kind: u8, bytes: &[u8]) {
    /// Reads the message of this kind, whose type has nothing more to look at.
    macro_rules! any_of {
        ($($message:ty),+ $(,)?) => {
            match kind {
                AppendRequest::KIND => {
                    if let Some(append) = one::<AppendRequest>(bytes, &|_| {}) {
                        appended(append);
                    }
                }
                SnapshotHead::KIND => {
                    if let Some(head) = one::<SnapshotHead>(bytes, &|_| {}) {
                        member(head.membership);
                    }
                }
                Forward::KIND => {
                    one::<Forward>(bytes, &|forward| {
                        if let Ok(commands) = read_all::<Command>(&forward.commands) {
                            assert_eq!(commands.len(), forward.commands.len());
                        }
                    });
                }
                ForwardReply::KIND => {
                    one::<ForwardReply>(bytes, &|reply| {
                        if let Ok(outcomes) = &reply.0 {
                            let _ = read_all::<Outcome>(outcomes);
                        }
                    });
                }
                $(<$message>::KIND => {
                    one::<$message>(bytes, &|_| {});
                })+
                _ => {}
            }
        };
    }
    any_of! {
        AppendReply, BallotRequest, BallotReply, TransferRequest, TransferReply, SnapshotReply,
        ReadIndex, ReadIndexReply, ChangeRequest, ChangeReply, Ping, Watch, Hello, HelloReply,
        Prepare, Adopt, Taken, AskSnapshotKept, SnapshotKept, SnapshotRest, Stopping,
        Envelope,
    }
}

/// Entries as a follower takes them: what is taken is written as the same bytes again.
fn appended(append: AppendRequest) {
    let _ = (
        append.vote.restore(),
        append.prev.restore(),
        append.commit.restore(),
    );
    for record in append.entries {
        let bytes = written::<EntryRecord>(&record);
        match record.restore() {
            Ok(entry) => {
                let again = entry.record().map(|record| written(&record));
                assert_eq!(again.ok(), Some(bytes), "{entry:?}");
                if let Err(error) = entry.restore() {
                    worded(&error);
                }
            }
            Err(error) => worded(&error),
        }
    }
}

fn member(membership: StoredMembershipRecord) {
    match membership.restore() {
        Ok(membership) => assert!(membership.voter_ids().count() < 1 << 20),
        Err(error) => worded(&error),
    }
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
        FrameCodec::new().encode(frame, &mut bytes).unwrap();
        bytes.to_vec()
    }

    fn unhex(text: &str) -> Vec<u8> {
        data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap()
    }

    /// The frame in the form that `framed` reads.
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

    #[test]
    fn kept_messages_are_read_or_refused_with_words() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/messages.hex");
        let golden = std::fs::read_to_string(golden).unwrap();
        let messages = golden
            .lines()
            .map(|line| unhex(line.rsplit(' ').next().unwrap()));
        let mut inputs: Vec<Vec<u8>> = messages.collect();
        let envelope = inputs
            .iter()
            .find(|bytes| bytes[0] == Envelope::KIND)
            .unwrap()
            .clone();
        let length = u32::try_from(envelope.len()).unwrap().to_le_bytes();
        let ping = inputs.iter().find(|bytes| bytes[0] == Ping::KIND).unwrap();
        inputs.push([&[0][..], &length, &envelope, ping].concat());
        replay("peer_message", &seeds(inputs), peer_message);
    }
}
