//! A simulated file: its content as readers see it, its durable content, and the versions between
//! them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::dice::Dice;

/// The unit that a disk writes completely or not at all.
const SECTOR: usize = 512;
/// Blocks are shared between copies of a disk until one of them writes.
const BLOCK: usize = 4096;
const SECTORS: u64 = (BLOCK / SECTOR) as u64;
/// The number of older versions kept for a sector that is written repeatedly without a sync.
const MAX_VERSIONS: usize = 8;

type Sector = [u8; SECTOR];

/// Bytes in blocks. `None` is a block of zeros. All bytes beyond the length are zeros.
#[derive(Clone, Default)]
struct Bytes {
    len: u64,
    blocks: Arc<Vec<Option<Arc<[u8; BLOCK]>>>>,
}

impl Bytes {
    fn block(&self, block: u64) -> Option<&Arc<[u8; BLOCK]>> {
        self.blocks.get(block as usize)?.as_ref()
    }

    fn set_block(&mut self, block: u64, bytes: Option<Arc<[u8; BLOCK]>>) {
        let blocks = Arc::make_mut(&mut self.blocks);
        if blocks.len() <= block as usize {
            blocks.resize(block as usize + 1, None);
        }
        blocks[block as usize] = bytes;
    }

    fn sector(&self, sector: u64) -> Sector {
        let at = (sector % SECTORS) as usize * SECTOR;
        let mut bytes = [0; SECTOR];
        if let Some(block) = self.block(sector / SECTORS) {
            bytes.copy_from_slice(&block[at..at + SECTOR]);
        }
        bytes
    }

    fn set_sector(&mut self, sector: u64, bytes: &Sector) {
        self.write_in_block(
            sector / SECTORS,
            (sector % SECTORS) as usize * SECTOR,
            bytes,
        );
    }

    fn write_in_block(&mut self, block: u64, at: usize, bytes: &[u8]) {
        let is_zero = bytes.iter().all(|byte| *byte == 0);
        if is_zero && (bytes.len() == BLOCK || self.block(block).is_none()) {
            if self.block(block).is_some() {
                self.set_block(block, None);
            }
            return;
        }
        if self.block(block).is_none() {
            self.set_block(block, Some(Arc::new([0; BLOCK])));
        }
        let blocks = Arc::make_mut(&mut self.blocks);
        if let Some(block) = blocks[block as usize].as_mut() {
            Arc::make_mut(block)[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn write(&mut self, bytes: &[u8], offset: u64) {
        let mut rest = bytes;
        let mut at = offset;
        while !rest.is_empty() {
            let within = (at % BLOCK as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(BLOCK - within));
            self.write_in_block(at / BLOCK as u64, within, now);
            at += now.len() as u64;
            rest = later;
        }
        self.len = self.len.max(at);
    }

    fn read(&self, buf: &mut [u8], offset: u64) {
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            let within = (at % BLOCK as u64) as usize;
            let take = rest.len().min(BLOCK - within);
            let (now, later) = rest.split_at_mut(take);
            match self.block(at / BLOCK as u64) {
                Some(block) => now.copy_from_slice(&block[within..within + take]),
                None => now.fill(0),
            }
            at += take as u64;
            rest = later;
        }
    }

    fn set_len(&mut self, len: u64) {
        if len < self.len {
            let keep = len.div_ceil(BLOCK as u64) as usize;
            let within = (len % BLOCK as u64) as usize;
            if self.blocks.len() > keep {
                Arc::make_mut(&mut self.blocks).truncate(keep);
            }
            if within > 0 && self.block(len / BLOCK as u64).is_some() {
                self.write_in_block(len / BLOCK as u64, within, &[0; BLOCK][within..]);
            }
        }
        self.len = len;
    }
}

/// A sector whose cached bytes may not be on the disk.
#[derive(Clone, Default)]
struct Unsynced {
    /// The versions between the durable one and the cached one.
    older: Vec<Sector>,
    /// `true` if the next sync writes it. After a failed sync it does not, because the page counts
    /// as clean.
    dirty: bool,
}

#[derive(Clone, Default)]
pub(super) struct Content {
    cached: Bytes,
    durable: Bytes,
    sectors: BTreeMap<u64, Unsynced>,
    /// The lengths since the durable one.
    lens: Vec<u64>,
    len_dirty: bool,
}

impl Content {
    /// A file that is completely durable.
    pub(super) fn durable(bytes: &[u8]) -> Self {
        let mut content = Self::default();
        content.cached.write(bytes, 0);
        content.durable = content.cached.clone();
        content
    }

    pub(super) fn len(&self) -> u64 {
        self.cached.len
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.cached.len as usize];
        self.cached.read(&mut bytes, 0);
        bytes
    }

    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buf.len() as u64);
        if end.is_none_or(|end| end > self.cached.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.cached.read(buf, offset);
        Ok(())
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len() as u64;
        self.touch(offset, end);
        let before = self.cached.len;
        self.cached.write(bytes, offset);
        self.note_len(before);
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let before = self.cached.len;
        if len < before {
            // The truncated part reads as zeros if the file grows again.
            self.touch(len, before);
        }
        self.cached.set_len(len);
        self.note_len(before);
    }

    /// Stores the content of the sectors before they are written.
    fn touch(&mut self, from: u64, to: u64) {
        let sectors = from / SECTOR as u64..to.div_ceil(SECTOR as u64);
        for sector in sectors {
            match self.sectors.get_mut(&sector) {
                None => {
                    let dirty = Unsynced {
                        older: Vec::new(),
                        dirty: true,
                    };
                    self.sectors.insert(sector, dirty);
                }
                Some(unsynced) => {
                    unsynced.dirty = true;
                    if unsynced.older.len() == MAX_VERSIONS {
                        unsynced.older.remove(1);
                    }
                    unsynced.older.push(self.cached.sector(sector));
                }
            }
        }
    }

    fn note_len(&mut self, before: u64) {
        if self.cached.len != before {
            self.lens.push(self.cached.len);
            self.len_dirty = true;
        }
    }

    /// Makes only the dirty sectors durable, as a kernel does.
    pub(super) fn sync(&mut self) {
        let Self {
            cached,
            durable,
            sectors,
            ..
        } = self;
        sectors.retain(|sector, unsynced| {
            if unsynced.dirty {
                durable.set_sector(*sector, &cached.sector(*sector));
            }
            !unsynced.dirty
        });
        if self.len_dirty {
            self.durable.set_len(self.cached.len);
            self.lens.clear();
            self.len_dirty = false;
        }
        if self.sectors.is_empty() && self.lens.is_empty() {
            // Both contents are equal, so they can share their blocks.
            self.durable = self.cached.clone();
        }
    }

    /// A failed sync: the pages count as clean, and it is unknown which of them are on the disk.
    pub(super) fn fail_sync(&mut self) {
        for unsynced in self.sectors.values_mut() {
            unsynced.dirty = false;
        }
        self.len_dirty = false;
    }

    /// Returns the file after a power cut. Each unsynced sector has its durable version, its last
    /// version, or one in between. The same applies to the length.
    pub(super) fn cut(&self, dice: &mut Dice) -> Self {
        if self.sectors.is_empty() && self.lens.is_empty() {
            return self.kept();
        }
        let survival = dice.survival();
        let mut left = self.durable.clone();
        for (sector, unsynced) in &self.sectors {
            if !dice.chance(survival) {
                continue;
            }
            let older = unsynced.older.len() as u64;
            let version = match older {
                0 => None,
                _ if dice.chance(12) => None,
                _ => unsynced.older.get(dice.below(older) as usize),
            };
            match version {
                Some(bytes) => left.set_sector(*sector, bytes),
                None => left.set_sector(*sector, &self.cached.sector(*sector)),
            }
        }
        let len = if !self.lens.is_empty() && dice.chance(survival) {
            self.some_len(dice)
        } else {
            self.durable.len
        };
        Self::left(left, len)
    }

    /// Returns one of the lengths since the durable one or, for a growth, possibly a part of it.
    fn some_len(&self, dice: &mut Dice) -> u64 {
        if dice.chance(10) {
            return self.cached.len;
        }
        let len = self.lens[dice.below(self.lens.len() as u64) as usize];
        match len.checked_sub(self.durable.len) {
            Some(grown) if dice.chance(8) => {
                self.durable.len + dice.below(grown + 1) / SECTOR as u64 * SECTOR as u64
            }
            _ => len,
        }
    }

    /// Returns the file as if all of it had been synced.
    pub(super) fn kept(&self) -> Self {
        Self {
            cached: self.cached.clone(),
            durable: self.cached.clone(),
            ..Self::default()
        }
    }

    /// Returns the file as if nothing unsynced had reached the disk.
    pub(super) fn lost(&self) -> Self {
        Self::left(self.durable.clone(), self.durable.len)
    }

    fn left(mut bytes: Bytes, len: u64) -> Self {
        // Sectors beyond the length are not part of the file, even if they survived.
        bytes.len = u64::MAX;
        bytes.set_len(len);
        Self {
            cached: bytes.clone(),
            durable: bytes,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_cut_copies_only_the_written_block_of_a_large_file() {
        let mut file = Content::durable(&vec![1; 1 << 20]);
        file.write(b"unsynced", 0);
        for seed in 0..20 {
            let mut copy = file.cut(&mut Dice::new(seed));
            copy.write(b"2", 5000);
            let pairs = file.durable.blocks.iter().zip(copy.cached.blocks.iter());
            let is_own = |(ours, theirs): &(&Option<Arc<_>>, &Option<Arc<_>>)| match (ours, theirs)
            {
                (Some(ours), Some(theirs)) => !Arc::ptr_eq(ours, theirs),
                _ => true,
            };
            // The first block, which was unsynced, and the block of the write.
            let own = pairs.filter(is_own).count();
            assert!((1..=2).contains(&own), "{own} blocks were copied");
        }
    }
}
