//! Converts the definition of a layout from the wire type to the type of `seqd_idgen`.

use seqd_api::Layout as Sent;
use seqd_idgen::{FieldOrder, FirstSequence, Layout, LayoutSpec};

/// A layout that this version does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("layout {layout} has {field} {value:?}, which this version does not support")]
pub struct UnknownLayout {
    /// The layout.
    pub layout: String,
    /// The unsupported field of the definition.
    pub field: &'static str,
    /// Its value.
    pub value: String,
}

/// Converts the layout that a server sent.
///
/// # Errors
/// The order or the first sequence is unknown to this version, or the widths do not form a valid
/// layout.
pub fn layout_of(sent: &Sent) -> Result<Layout, UnknownLayout> {
    let unknown = |field, value: String| UnknownLayout {
        layout: sent.name.clone(),
        field,
        value,
    };
    let order = match sent.order.as_str() {
        "tick-worker-sequence" => FieldOrder::TickWorkerSequence,
        "tick-sequence-worker" => FieldOrder::TickSequenceWorker,
        other => return Err(unknown("order", other.to_owned())),
    };
    let below = |text: &str| text.strip_prefix("random:")?.parse().ok();
    let first_sequence = match sent.first_sequence.as_str() {
        "zero" => FirstSequence::Zero,
        "spread" => FirstSequence::Spread,
        other => match below(other) {
            Some(bound) => FirstSequence::RandomBelow(bound),
            None => return Err(unknown("first_sequence", other.to_owned())),
        },
    };
    Layout::new(LayoutSpec {
        name: sent.name.clone(),
        epoch_ms: sent.epoch_ms,
        tick_ms: sent.tick_ms,
        time_bits: sent.time_bits,
        datacenter_bits: sent.datacenter_bits,
        worker_bits: sent.worker_bits,
        sequence_bits: sent.sequence_bits,
        order,
        first_sequence,
    })
    .map_err(|error| unknown("a definition", error.to_string()))
}
