//! The reader and the writer of `std::io` over a [`DiskFile`].

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use crate::DiskFile;

/// Writes a file from its start, unbuffered.
pub struct FileWriter {
    file: Arc<dyn DiskFile>,
    at: u64,
}

impl FileWriter {
    #[must_use]
    pub fn new(file: Arc<dyn DiskFile>) -> Self {
        Self { file, at: 0 }
    }

    #[must_use]
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(bytes, self.at)?;
        self.at += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a file from its start, unbuffered. The length is that at the time of opening.
pub struct FileReader {
    file: Arc<dyn DiskFile>,
    at: u64,
    len: u64,
}

impl FileReader {
    pub fn new(file: Arc<dyn DiskFile>) -> io::Result<Self> {
        let len = file.len()?;
        Ok(Self { file, at: 0, len })
    }

    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Read for FileReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.len.saturating_sub(self.at);
        let take = usize::try_from(left).map_or(buf.len(), |left| left.min(buf.len()));
        let Some(part) = buf.get_mut(..take) else {
            return Ok(0);
        };
        self.file.read_at(part, self.at)?;
        self.at += take as u64;
        Ok(take)
    }
}

impl Seek for FileReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "a position before the start")
        })?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, OsDisk};

    #[test]
    fn written_bytes_are_read_from_any_position() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = FileWriter::new(OsDisk.create(&dir.path().join("a")).unwrap());
        writer.write_all(b"one").unwrap();
        writer.write_all(b"two").unwrap();
        let mut reader = FileReader::new(Arc::clone(writer.file())).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "onetwo");
        reader.seek(SeekFrom::End(-2)).unwrap();
        text.clear();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "wo");
        assert!(reader.seek(SeekFrom::End(-7)).is_err());
    }
}
