//! The bytes of idgen's types.
//!
//! idgen knows no serialisation, so that it stays usable by itself; how its values are written is
//! here, as modules for `#[serde(with = "...")]`. A progression is checked again when it is
//! read, so one that breaks the rules of its type never becomes a value.

/// A newtype around an integer, written as the integer.
macro_rules! as_integer {
    ($($module:ident: $type:ident as $integer:ty;)*) => {$(
        pub(crate) mod $module {
            use seqd_idgen::$type;
            use serde::{Deserialize, Deserializer, Serialize, Serializer};

            pub(crate) fn serialize<S: Serializer>(
                value: &$type,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                value.0.serialize(serializer)
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$type, D::Error> {
                <$integer>::deserialize(deserializer).map($type)
            }
        }
    )*};
}

as_integer! {
    tick: Tick as u64;
    wall_ms: WallMs as u64;
    worker_id: WorkerId as u32;
}

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

pub(crate) mod layout {
    use seqd_idgen::{FieldOrder, FirstSequence, Layout, LayoutSpec};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[derive(Serialize, Deserialize)]
    enum Order {
        TickWorkerSequence,
        TickSequenceWorker,
    }

    #[derive(Serialize, Deserialize)]
    enum First {
        Zero,
        RandomBelow(u32),
    }

    #[derive(Serialize, Deserialize)]
    struct Bytes {
        name: String,
        epoch_ms: u64,
        tick_ms: u32,
        time_bits: u8,
        datacenter_bits: u8,
        worker_bits: u8,
        sequence_bits: u8,
        order: Order,
        first_sequence: First,
    }

    pub(crate) fn serialize<S: Serializer>(
        value: &Layout,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let spec = value.spec();
        let bytes = Bytes {
            name: spec.name.clone(),
            epoch_ms: spec.epoch_ms,
            tick_ms: spec.tick_ms,
            time_bits: spec.time_bits,
            datacenter_bits: spec.datacenter_bits,
            worker_bits: spec.worker_bits,
            sequence_bits: spec.sequence_bits,
            order: match spec.order {
                FieldOrder::TickWorkerSequence => Order::TickWorkerSequence,
                FieldOrder::TickSequenceWorker => Order::TickSequenceWorker,
            },
            first_sequence: match spec.first_sequence {
                FirstSequence::Zero => First::Zero,
                FirstSequence::RandomBelow(bound) => First::RandomBelow(bound),
            },
        };
        bytes.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Layout, D::Error> {
        let bytes = Bytes::deserialize(deserializer)?;
        let spec = LayoutSpec {
            name: bytes.name,
            epoch_ms: bytes.epoch_ms,
            tick_ms: bytes.tick_ms,
            time_bits: bytes.time_bits,
            datacenter_bits: bytes.datacenter_bits,
            worker_bits: bytes.worker_bits,
            sequence_bits: bytes.sequence_bits,
            order: match bytes.order {
                Order::TickWorkerSequence => FieldOrder::TickWorkerSequence,
                Order::TickSequenceWorker => FieldOrder::TickSequenceWorker,
            },
            first_sequence: match bytes.first_sequence {
                First::Zero => FirstSequence::Zero,
                First::RandomBelow(bound) => FirstSequence::RandomBelow(bound),
            },
        };
        Layout::new(spec).map_err(de::Error::custom)
    }
}
