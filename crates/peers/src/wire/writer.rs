//! Writes frames in the order in which they are queued, many with one system call.

use std::future::Future;
use std::io;
use std::pin::pin;

use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio_util::codec::Encoder;

use super::frame::{Frame, FrameCodec, PART_BYTES, Part};
use super::transport::Payload;

/// The bytes that are collected for one system call.
const AT_ONCE: usize = 64 << 10;

/// The largest number of credits and cancellations that wait until the connection accepts bytes.
/// More accumulate only if the connection accepts none.
pub(super) const URGENT: usize = 1024;

pub(super) struct Writer<W> {
    write: W,
    codec: FrameCodec,
    buffer: BytesMut,
    accepted: u64,
    /// Frames that do not need the window.
    urgent: mpsc::Receiver<Frame>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(write: W, urgent: mpsc::Receiver<Frame>) -> Self {
        Self {
            write,
            codec: FrameCodec::default(),
            buffer: BytesMut::new(),
            accepted: 0,
            urgent,
        }
    }

    /// Returns the number of bytes of this connection that the operating system has accepted.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the position of the next frame. No byte of it was sent unless more bytes than this
    /// were accepted.
    pub(super) fn position(&self) -> u64 {
        self.accepted + self.buffer.len() as u64
    }

    pub(super) fn put(&mut self, frame: &Frame) -> io::Result<()> {
        self.codec.encode(frame, &mut self.buffer)
    }

    /// Waits until the next frame can be created. In the meantime the queued bytes and urgent
    /// frames are written.
    pub(super) async fn wait<T>(&mut self, next: impl Future<Output = T>) -> io::Result<T> {
        let mut next = pin!(next);
        while let Ok(frame) = self.urgent.try_recv() {
            self.put(&frame)?;
        }
        if self.buffer.len() < AT_ONCE
            && let Some(ready) = next.as_mut().now_or_never()
        {
            return Ok(ready);
        }
        loop {
            self.flush().await?;
            tokio::select! {
                biased;
                ready = &mut next => return Ok(ready),
                Some(frame) = self.urgent.recv() => self.put(&frame)?,
            }
        }
    }

    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while !self.buffer.is_empty() {
            let written = self.write.write_buf(&mut self.buffer).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.accepted += written as u64;
        }
        self.write.flush().await
    }

    /// Writes the queued bytes and ends this direction.
    pub(super) async fn close(&mut self) -> io::Result<()> {
        self.flush().await?;
        self.write.shutdown().await
    }
}

/// Splits a payload into parts.
pub(super) struct Parts {
    payload: Payload,
    /// Bytes that were read from a stream and are not in a part yet.
    read: Bytes,
}

impl Parts {
    pub(super) fn new(payload: Payload) -> Self {
        let read = Bytes::new();
        Self { payload, read }
    }

    /// Returns the next part. Must not be called after the last one. An error is an error of the
    /// stream.
    pub(super) async fn next(&mut self) -> io::Result<Part> {
        match &mut self.payload {
            Payload::Bytes(bytes) => {
                let part = bytes.split_to(bytes.len().min(PART_BYTES));
                let is_last = bytes.is_empty();
                Ok(Part {
                    is_last,
                    bytes: part,
                })
            }
            Payload::Stream(stream) => {
                while self.read.is_empty() {
                    match stream.next().await {
                        Some(read) => self.read = read?.into(),
                        None => {
                            return Ok(Part {
                                is_last: true,
                                bytes: Bytes::new(),
                            });
                        }
                    }
                }
                let bytes = self.read.split_to(self.read.len().min(PART_BYTES));
                Ok(Part {
                    is_last: false,
                    bytes,
                })
            }
        }
    }
}
