//! UUIDs of version 7 and 4 (RFC 9562), from memory.
//!
//! Version 7 is strictly increasing per node (section 6.2, method 2). The 74 bits after the time
//! are random in each new millisecond. Within a millisecond, or while the clock is set back, each
//! UUID adds a random step. The next UUID is therefore hard to guess, and no clock produces two
//! equal ones.

use seqd_idgen::WallMs;
use seqd_net::Lock;
use uuid::Uuid;

/// The bits other than time, version and variant.
const RANDOM_BITS: u32 = 74;

/// A random step has this many bits. The headroom holds many times a million steps.
const STEP_MASK: u128 = (1 << 32) - 1;

/// The time of a version 7 UUID has this many bits.
const TIME_MASK: u64 = (1 << 48) - 1;

/// The operating system provided no random bytes.
#[derive(Debug, thiserror::Error)]
#[error("the operating system returned no random bytes: {0}")]
pub(crate) struct NoRandom(getrandom::Error);

#[derive(Clone, Copy, Debug)]
struct Last {
    ms: u64,
    low: u128,
}

#[derive(Debug, Default)]
pub(crate) struct UuidSource {
    last: Lock<Option<Last>>,
}

impl UuidSource {
    /// Returns `count` UUIDs of version 7, strictly increasing and greater than all earlier ones.
    pub(crate) fn version_7(&self, now: WallMs, count: usize) -> Result<Vec<Uuid>, NoRandom> {
        let drawn = draw(count)?;
        let mut last = self.last.lock();
        let mut uuids = Vec::with_capacity(count);
        for random in drawn {
            let next = step(*last, now.0 & TIME_MASK, random);
            *last = Some(next);
            uuids.push(pack(next));
        }
        Ok(uuids)
    }

    pub(crate) fn version_4(&self, count: usize) -> Result<Vec<Uuid>, NoRandom> {
        let drawn = draw(count)?.into_iter();
        Ok(drawn
            .map(|random| uuid::Builder::from_random_bytes(random.to_ne_bytes()).into_uuid())
            .collect())
    }
}

/// The time and the tail after `last`. The top bit of a fresh tail is zero, as headroom for steps.
fn step(last: Option<Last>, now: u64, random: u128) -> Last {
    let fresh = |ms: u64| Last {
        ms: ms & TIME_MASK,
        low: random & ((1 << (RANDOM_BITS - 1)) - 1),
    };
    match last {
        Some(last) if now <= last.ms => {
            let low = last.low + 1 + (random & STEP_MASK);
            if low >> RANDOM_BITS == 0 {
                Last { ms: last.ms, low }
            } else {
                fresh(last.ms + 1)
            }
        }
        _ => fresh(now),
    }
}

fn pack(Last { ms, low }: Last) -> Uuid {
    let high = low >> 62;
    let tail = low & ((1 << 62) - 1);
    Uuid::from_u128((u128::from(ms) << 80) | (7 << 76) | (high << 64) | (0b10 << 62) | tail)
}

fn draw(count: usize) -> Result<Vec<u128>, NoRandom> {
    let mut drawn = vec![[0_u8; 16]; count];
    getrandom::fill(drawn.as_flattened_mut()).map_err(NoRandom)?;
    Ok(drawn.into_iter().map(u128::from_be_bytes).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_7_increases_whatever_the_clock_does() {
        let source = UuidSource::default();
        let mut all = Vec::new();
        for now in [5000, 5000, 4000, 9000, 0, 9001] {
            all.extend(source.version_7(WallMs(now), 1000).unwrap());
        }
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        for uuid in &all {
            assert_eq!(
                (uuid.get_version_num(), uuid.get_variant()),
                (7, uuid::Variant::RFC4122)
            );
        }
        let stamp = all[0].get_timestamp().unwrap().to_unix();
        assert_eq!(stamp, (5, 0));
    }

    #[test]
    fn a_full_tail_continues_in_the_next_millisecond() {
        let full = Last {
            ms: 7,
            low: (1 << RANDOM_BITS) - 1,
        };
        let next = step(Some(full), 7, 3);
        assert_eq!((next.ms, next.low), (8, 3));
    }

    #[test]
    fn version_4_is_random() {
        let uuids = UuidSource::default().version_4(100).unwrap();
        assert!(uuids.iter().all(|uuid| uuid.get_version_num() == 4));
        let distinct: std::collections::BTreeSet<_> = uuids.iter().collect();
        assert_eq!(distinct.len(), 100);
    }
}
