//! The bytes of idgen's types.
//!
//! idgen knows no serialisation, so that it stays usable by itself; how its values are written is
//! said here, as modules for `#[serde(with = "...")]`. A progression is checked again when it is
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
