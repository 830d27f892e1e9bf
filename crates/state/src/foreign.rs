//! The encoding of idgen's types, which do not implement serialisation: types and modules for
//! `#[serde(with)]`.
//!
//! A decoded progression or layout is validated, so bytes that violate its rules are malformed.

use seqd_idgen::{FieldOrder, FirstSequence, LayoutSpec, Tick, WallMs, WorkerId};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Tick")]
pub(crate) struct TickDef(u64);

#[derive(Serialize, Deserialize)]
#[serde(remote = "WallMs")]
pub(crate) struct WallMsDef(u64);

#[derive(Serialize, Deserialize)]
#[serde(remote = "WorkerId")]
pub(crate) struct WorkerIdDef(u32);

pub(crate) mod option_tick {
    use seqd_idgen::Tick;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Tick>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(|tick| tick.0).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Tick>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Tick))
    }
}

pub(crate) mod progression {
    use seqd_idgen::Progression;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[derive(Serialize, Deserialize)]
    struct Bytes {
        start: i64,
        increment: i64,
        min: i64,
        max: i64,
        cycle: bool,
    }

    pub(crate) fn serialize<S: Serializer>(
        value: &Progression,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let bytes = Bytes {
            start: value.start(),
            increment: value.increment(),
            min: value.min(),
            max: value.max(),
            cycle: value.cycle(),
        };
        bytes.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Progression, D::Error> {
        let Bytes {
            start,
            increment,
            min,
            max,
            cycle,
        } = Bytes::deserialize(deserializer)?;
        Progression::new(start, increment, min, max, cycle).map_err(de::Error::custom)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FieldOrder")]
enum Order {
    TickWorkerSequence,
    TickSequenceWorker,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FirstSequence")]
enum First {
    Zero,
    RandomBelow(u32),
    Spread,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LayoutSpec")]
struct Spec {
    name: String,
    epoch_ms: u64,
    tick_ms: u32,
    time_bits: u8,
    datacenter_bits: u8,
    worker_bits: u8,
    sequence_bits: u8,
    #[serde(with = "Order")]
    order: FieldOrder,
    #[serde(with = "First")]
    first_sequence: FirstSequence,
}

pub(crate) mod layout {
    use seqd_idgen::Layout;
    use serde::{Deserializer, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(
        value: &Layout,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::Spec::serialize(value.spec(), serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Layout, D::Error> {
        let spec = super::Spec::deserialize(deserializer)?;
        Layout::new(spec).map_err(de::Error::custom)
    }
}
