//! Integers that may exceed 2^53: written as strings, read from strings or numbers.
//!
//! JavaScript parses JSON numbers as doubles, so an ID that is sent as a number would arrive
//! changed. Fields use these types as `#[serde(with = "Decimal")]`, which also defines the schema
//! of the field. [`Lenient`] and [`Flag`] also read small numbers and booleans from strings,
//! because a query contains only strings.

use std::borrow::Cow;
use std::fmt::Display;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// Defines types that represent the form of a field, each with its schema.
macro_rules! forms {
    ($($(#[$about:meta])* $name:ident $schema:tt)+) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }

            fn inline_schema() -> bool {
                true
            }
        }
    )+};
}

forms! {
    /// An integer that is written as a string.
    Decimal { "type": "string", "pattern": "^-?[0-9]+$" }
    /// An optional integer that is written as a string. Null stands for none.
    OptionalDecimal { "type": ["string", "null"], "pattern": "^-?[0-9]+$" }
    /// An optional list of integers that are written as strings.
    OptionalDecimals {
        "type": ["array", "null"],
        "items": { "type": "string", "pattern": "^-?[0-9]+$" }
    }
    /// A small integer that is written as a number and read from a number or a string.
    Lenient { "type": ["integer", "null"], "minimum": 0 }
    /// A boolean that is read from `true` or `false`, or from the strings `true`, `1`, the empty
    /// string, `false` and `0`.
    Flag { "type": ["boolean", "null"] }
    /// A string, or an integer that is converted to a string. Used for times: people write RFC
    /// 3339, programs send milliseconds.
    TimeText { "type": ["string", "integer", "null"] }
}

/// An object. Without this form, serde would also accept a list of the values of its fields.
#[derive(Debug, Clone, Copy)]
pub struct Object<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for Object<T> {
    fn schema_name() -> Cow<'static, str> {
        <Option<T>>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Option<T>>::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// An integer in any accepted form.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected an integer, or an integer in a string")]
enum Given {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
}

/// A JSON number that is not an integer and at least as large as this is reported as too large.
const TOO_LARGE: f64 = 9_007_199_254_740_992.0;

fn parse<T: Integer, E: serde::de::Error>(given: Given) -> Result<T, E> {
    let text = match given {
        Given::Unsigned(number) => number.to_string(),
        Given::Signed(number) => number.to_string(),
        Given::Float(number) if number.abs() >= TOO_LARGE => {
            let is_wider = T::MOST.len() > u64::MAX.to_string().len();
            return Err(match is_wider && number > 0.0 {
                true => E::custom("an integer above 18446744073709551615 must be a string"),
                false => outside::<T, E>("the number"),
            });
        }
        Given::Float(_) => {
            return Err(E::custom("an integer has neither point nor exponent"));
        }
        Given::Text(text) => text,
    };
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    if !plain {
        return Err(E::custom(format_args!("{text:?} is not an integer")));
    }
    text.parse().map_err(|_| outside::<T, E>(&text))
}

/// The error of a number that is too small or too large for its field.
fn outside<T: Integer, E: serde::de::Error>(text: &str) -> E {
    let (least, most) = (T::LEAST, T::MOST);
    E::custom(format_args!(
        "{text} is outside the range of this field, {least} to {most}"
    ))
}

/// An integer with its range.
pub trait Integer: FromStr {
    /// The smallest value.
    const LEAST: &'static str;
    /// The largest value.
    const MOST: &'static str;
}

macro_rules! integers {
    ($($type:ty: $least:literal to $most:literal,)+) => {$(
        impl Integer for $type {
            const LEAST: &'static str = $least;
            const MOST: &'static str = $most;
        }
    )+};
}

integers! {
    u8: "0" to "255",
    u32: "0" to "4294967295",
    u64: "0" to "18446744073709551615",
    i64: "-9223372036854775808" to "9223372036854775807",
    u128: "0" to "340282366920938463463374607431768211455",
}

impl Decimal {
    /// Writes the integer as a string.
    pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    /// Reads an integer from a string or a number.
    pub fn deserialize<'de, T: Integer, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
        parse(Given::deserialize(from)?)
    }
}

impl OptionalDecimal {
    /// Writes the integer as a string, or null.
    pub fn serialize<T: Display, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.collect_str(value),
            None => to.serialize_none(),
        }
    }

    /// Reads an integer from a string or a number, or null.
    pub fn deserialize<'de, T: Integer, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Option::<Given>::deserialize(from)?.map(parse).transpose()
    }
}

impl TimeText {
    /// Writes the text, or null.
    pub fn serialize<S: Serializer>(value: &Option<String>, to: S) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }

    /// Reads a text, an integer, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
        match Option::<Given>::deserialize(from)? {
            None => Ok(None),
            Some(Given::Text(text)) => Ok(Some(text)),
            Some(Given::Unsigned(number)) => Ok(Some(number.to_string())),
            Some(Given::Signed(number)) => Ok(Some(number.to_string())),
            Some(Given::Float(_)) => Err(serde::de::Error::custom(
                "an integer has neither point nor exponent",
            )),
        }
    }
}

impl OptionalDecimals {
    /// Writes a list of strings, or null.
    pub fn serialize<T: Display, S: Serializer>(
        values: &Option<Vec<T>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match values {
            Some(values) => to.collect_seq(values.iter().map(ToString::to_string)),
            None => to.serialize_none(),
        }
    }

    /// Reads a list of strings or numbers, or null.
    pub fn deserialize<'de, T: Integer, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<T>>, D::Error> {
        let given = Option::<Vec<Given>>::deserialize(from)?;
        given
            .map(|values| values.into_iter().map(parse).collect())
            .transpose()
    }
}

impl Lenient {
    /// Writes the number as a number.
    pub fn serialize<T: Serialize, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }

    /// Reads a number, a number in a string, or null.
    pub fn deserialize<'de, T: Integer, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Option::<Given>::deserialize(from)?.map(parse).transpose()
    }
}

impl<T: Serialize + DeserializeOwned> Object<T> {
    /// Writes the object.
    pub fn serialize<S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }

    /// Reads an object, or null.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
        let fields = Option::<Map<String, Value>>::deserialize(from)?;
        let object = fields.map(|fields| serde_json::from_value(Value::Object(fields)));
        object.transpose().map_err(D::Error::custom)
    }
}

/// A boolean in any accepted form.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected true or false")]
enum GivenFlag {
    Bool(bool),
    Text(String),
}

impl Flag {
    /// Writes the boolean.
    pub fn serialize<S: Serializer>(value: &Option<bool>, to: S) -> Result<S::Ok, S::Error> {
        value.serialize(to)
    }

    /// Reads a boolean, or its text from a query. A bare `?key` is true.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
        match Option::<GivenFlag>::deserialize(from)? {
            None => Ok(None),
            Some(GivenFlag::Bool(value)) => Ok(Some(value)),
            Some(GivenFlag::Text(text)) => match text.as_str() {
                "true" | "1" | "" => Ok(Some(true)),
                "false" | "0" => Ok(Some(false)),
                _ => Err(D::Error::custom(format_args!(
                    "{text:?} is neither true nor false"
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Row {
        #[serde(with = "Decimal")]
        id: u64,
        #[serde(with = "OptionalDecimal", default)]
        to: Option<i64>,
        #[serde(with = "OptionalDecimals", default)]
        ids: Option<Vec<u64>>,
        #[serde(with = "Lenient", default)]
        count: Option<u32>,
        #[serde(with = "Flag", default)]
        expand: Option<bool>,
    }

    #[test]
    fn strings_go_out_and_strings_or_numbers_come_in() {
        let row = Row {
            id: u64::MAX,
            to: Some(i64::MIN),
            ids: Some(vec![1, 2]),
            count: Some(3),
            expand: Some(true),
        };
        let text = r#"{"id":"18446744073709551615","to":"-9223372036854775808","ids":["1","2"],"count":3,"expand":true}"#;
        assert_eq!(serde_json::to_string(&row).unwrap(), text);
        assert_eq!(serde_json::from_str::<Row>(text).unwrap(), row);
        let numbers = r#"{"id":18446744073709551615,"to":-9223372036854775808,"ids":[1,"2"],"count":"3","expand":"1"}"#;
        assert_eq!(serde_json::from_str::<Row>(numbers).unwrap(), row);
        let sparse: Row = serde_json::from_str(r#"{"id":7,"to":null}"#).unwrap();
        assert_eq!((sparse.id, sparse.to, sparse.count), (7, None, None));
    }

    #[test]
    fn an_integer_of_more_than_64_bits_is_read_from_a_string() {
        #[derive(Debug, Deserialize)]
        struct Grant {
            #[serde(with = "Decimal")]
            grant: u128,
        }
        let read = |text: &str| serde_json::from_str::<Grant>(text);
        let grant = read(r#"{"grant":"3361735686716518056202"}"#).unwrap().grant;
        assert_eq!(grant, 3_361_735_686_716_518_056_202);
        let refusal = read(r#"{"grant":3361735686716518056202}"#).unwrap_err();
        let refusal = refusal.to_string();
        assert!(refusal.contains("must be a string"), "{refusal}");
    }

    #[test]
    fn a_number_outside_the_range_or_not_an_integer_is_refused() {
        let bad = [
            "1.5",
            "\"\"",
            "\"+1\"",
            "\"1e3\"",
            "1e3",
            "-1",
            "\"x\"",
            "99999999999999999999",
        ];
        for id in bad {
            let text = format!(r#"{{"id":{id}}}"#);
            assert!(serde_json::from_str::<Row>(&text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Row>(r#"{"id":1,"count":5000000000}"#).is_err());
        assert!(serde_json::from_str::<Row>(r#"{"id":1,"expand":"yes"}"#).is_err());
    }
}
