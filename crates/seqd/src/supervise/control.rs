//! The messages between the holder and the guardian: lines on a socket.

use seqd_client::BootTime;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::Ends;

/// The longest line, in bytes.
const LINE_BYTES: u64 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// From the guardian: the command has started.
    Started { pid: i32 },
    /// From the holder: the command may run until these times.
    Until(Ends),
    /// From the holder: end the command.
    Stop,
}

impl Line {
    fn text(self) -> String {
        match self {
            Self::Started { pid } => format!("started {pid}\n"),
            Self::Until(ends) => format!(
                "until {} {}\n",
                ends.asked.as_millis(),
                ends.killed.as_millis()
            ),
            Self::Stop => "stop\n".to_owned(),
        }
    }

    fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let line = match words.next()? {
            "started" => Self::Started {
                pid: words.next()?.parse().ok()?,
            },
            "until" => {
                let mut moment = || {
                    let ms = words.next()?.parse().ok()?;
                    Some(BootTime::from_millis(ms))
                };
                Self::Until(Ends {
                    asked: moment()?,
                    killed: moment()?,
                })
            }
            "stop" => Self::Stop,
            _ => return None,
        };
        words.next().is_none().then_some(line)
    }
}

pub(super) struct Control {
    lines: BufReader<OwnedReadHalf>,
    half: Vec<u8>,
    to: OwnedWriteHalf,
}

impl Control {
    pub(super) fn new(stream: UnixStream) -> Self {
        let (from, to) = stream.into_split();
        Self {
            lines: BufReader::new(from),
            half: Vec::new(),
            to,
        }
    }

    /// The next line. `None` if the other process has ended. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Line> {
        let mut limited = (&mut self.lines).take(LINE_BYTES);
        // Bytes that are read before a cancellation stay in `half`.
        let read = limited.read_until(b'\n', &mut self.half).await;
        let half = std::mem::take(&mut self.half);
        read.ok().filter(|_| half.ends_with(b"\n"))?;
        Line::read(std::str::from_utf8(&half).ok()?)
    }

    pub(super) async fn send(&mut self, line: Line) -> std::io::Result<()> {
        self.to.write_all(line.text().as_bytes()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written_and_nothing_else_is() {
        let ends = Ends {
            asked: BootTime::from_millis(5),
            killed: BootTime::from_millis(7),
        };
        for line in [Line::Started { pid: 9 }, Line::Until(ends), Line::Stop] {
            assert_eq!(Line::read(&line.text()), Some(line));
        }
        for other in ["", "until 5", "until 5 x", "started", "stop now", "go"] {
            assert_eq!(Line::read(other), None, "{other}");
        }
    }
}
