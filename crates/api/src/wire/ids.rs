//! IDs and UUIDs.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::number_text::{Decimal, Flag, Lenient};

/// The default of `http.max_count`, the largest number of IDs or UUIDs per response.
pub const DEFAULT_MAX_COUNT: u32 = 10_000;

requests! {
    /// The options of `/v1/id` and `/v1/ids`.
    IdQuery {
        /// The number of IDs. Only for `/v1/ids`.
        count: u64 as "Lenient",
        /// The layout. `default` if omitted.
        layout: String,
        /// The text form: `dec`, `hex`, `b62` or `crockford`.
        format: String,
        /// Pads the text with leading zeros to this width.
        pad: u64 as "Lenient",
        /// A prefix of each ID.
        id_prefix: String,
        /// Returns JSON numbers instead of strings, for layouts that fit 53 bits.
        numeric: bool as "Flag",
    }
}

/// One ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Id {
    /// The ID in the requested form: a string, or with `numeric` an integer.
    #[serde(deserialize_with = "text_of_id")]
    #[schemars(schema_with = "schema_of_id")]
    pub id: String,
    /// The layout it was minted in.
    pub layout: String,
    /// The whole worker field of the node that minted it.
    pub worker: u32,
    /// The node that minted it.
    pub node: String,
}

/// An ID as a server writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Number(u64),
}

impl Written {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string(),
        }
    }
}

fn text_of_id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Written::deserialize(from).map(Written::text)
}

fn texts_of_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let ids = Vec::<Written>::deserialize(from)?;
    Ok(ids.into_iter().map(Written::text).collect())
}

fn schema_of_id(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "integer"] })
}

fn schema_of_ids(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": schema_of_id(generator) })
}

/// One ID in the form that a server serializes without copies. A client deserializes it as [`Id`].
#[derive(Debug, Clone, Serialize)]
pub struct IdBody<'a> {
    /// The ID.
    pub id: IdValue<'a>,
    /// The layout it was minted in.
    pub layout: &'a str,
    /// The whole worker field of the node that minted it.
    pub worker: u32,
    /// The node that minted it.
    pub node: &'a str,
}

/// An ID in JSON.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum IdValue<'a> {
    /// The ID in the requested form.
    Text(&'a str),
    /// The ID as a number, if the request has `numeric` and the layout fits 53 bits.
    Number(u64),
}

/// Many IDs, strictly increasing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ids {
    /// The IDs in the requested form: strings, or with `numeric` integers.
    #[serde(deserialize_with = "texts_of_ids")]
    #[schemars(schema_with = "schema_of_ids")]
    pub ids: Vec<String>,
    /// The layout they were minted in.
    pub layout: String,
    /// The whole worker field of the node that minted them.
    pub worker: u32,
    /// The node that minted them.
    pub node: String,
}

requests! {
    /// The form of an ID to decode.
    IdPartsQuery {
        /// The layout. `default` if omitted.
        layout: String,
        /// The text form of the input. Decimal by default.
        format: String,
    }
}

/// The parts of an ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdParts {
    /// The ID, decimal.
    #[serde(with = "Decimal")]
    pub id: u64,
    /// The layout.
    pub layout: String,
    /// The start of its tick, RFC 3339.
    pub time: String,
    /// The start of its tick, in milliseconds of Unix time.
    pub unix_ms: i64,
    /// Its tick since the epoch of the layout.
    #[serde(with = "Decimal")]
    pub tick: u64,
    /// Its datacenter. Null if the layout has none.
    pub datacenter: Option<u32>,
    /// Its worker within the datacenter.
    pub worker: u32,
    /// Its sequence within the tick.
    pub sequence: u32,
    /// The ID in hexadecimal.
    pub hex: String,
    /// The ID in base 62, padded to 11 characters.
    pub base62: String,
    /// The ID in Crockford's base 32, padded to 13 characters.
    pub crockford: String,
    /// The holder of the worker at that tick. Null if no holder is recorded.
    pub holder: Option<Holder>,
    /// `held` (a holder is recorded), `nobody` (no generator of this cluster held the worker at
    /// that time, so the ID does not come from this cluster and layout), `unknown` (leases of that
    /// time are no longer recorded) or `ahead` (its time is in the future). Null for callers that
    /// may not read the workers.
    #[serde(default)]
    pub origin: Option<String>,
    /// The same as a sentence.
    #[serde(default)]
    pub origin_detail: Option<String>,
}

/// The holder of a worker, with the ticks of its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holder {
    /// The owner of the lease.
    pub owner: String,
    /// The node, if a node of the cluster is the owner.
    pub node: Option<String>,
    /// The lease.
    #[serde(with = "Decimal")]
    pub lease: u64,
    /// The first tick of the lease.
    #[serde(with = "Decimal")]
    pub from_tick: u64,
    /// The first tick after the lease.
    #[serde(with = "Decimal")]
    pub fence_tick: u64,
}

requests! {
    /// The options of `/v1/uuid` and `/v1/uuids`.
    UuidQuery {
        /// The version: 7 (the default) or 4.
        version: u8 as "Lenient",
        /// The number of UUIDs. Only for `/v1/uuids`.
        count: u64 as "Lenient",
    }
}

/// One UUID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uuid {
    /// The UUID in lower case, with hyphens.
    pub uuid: String,
}

/// Many UUIDs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Uuids {
    /// The UUIDs in lower case, with hyphens. UUIDs of version 7 are strictly increasing.
    pub uuids: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_reads_the_value_that_a_server_writes() {
        let (layout, node) = ("default", "n1");
        let body = |id| IdBody {
            id,
            layout,
            worker: 7,
            node,
        };
        let text = serde_json::to_string(&body(IdValue::Text("42"))).unwrap();
        let id = Id {
            id: "42".to_owned(),
            layout: layout.to_owned(),
            worker: 7,
            node: node.to_owned(),
        };
        assert_eq!(serde_json::from_str::<Id>(&text).unwrap(), id);
        assert_eq!(serde_json::to_string(&id).unwrap(), text);
        let number = serde_json::to_string(&body(IdValue::Number(42))).unwrap();
        assert_eq!(number, text.replace("\"42\"", "42"));
        assert_eq!(serde_json::from_str::<Id>(&number).unwrap(), id);
        let many = |ids: &str| {
            let text = format!(r#"{{"ids":{ids},"layout":"js53","worker":7,"node":"n1"}}"#);
            serde_json::from_str::<Ids>(&text).unwrap().ids
        };
        assert_eq!(many("[41,42]"), many(r#"["41","42"]"#));
    }
}
