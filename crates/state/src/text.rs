//! Limits on the texts in commands, so that no record outgrows a row, a page or a log line.

use serde::{Deserialize, Serialize};

use crate::codec::frame::{FrameRow, FrameTable, row};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextField {
    ClusterId,
    /// A member's name: a DNS label or slightly longer.
    NodeName,
    /// A member's peer address: a DNS name of at most 253 bytes, and a port.
    PeerAddress,
    ClientUrl,
    /// The holder of a worker: the name of a host, a pod or a service.
    Owner,
    /// The description of a sequence. The only text that may be empty.
    Description,
    /// The name of a layout in a command that refers to one. Layouts themselves have stricter
    /// rules.
    LayoutName,
}

impl TextField {
    #[must_use]
    pub const fn max_bytes(self) -> usize {
        match self {
            Self::ClusterId | Self::NodeName | Self::LayoutName => 128,
            Self::PeerAddress | Self::Owner => 255,
            Self::ClientUrl => 512,
            Self::Description => 1024,
        }
    }
}

impl std::fmt::Display for TextField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::ClusterId => "cluster ID",
            Self::NodeName => "node name",
            Self::PeerAddress => "peer address",
            Self::ClientUrl => "client URL",
            Self::Owner => "owner",
            Self::Description => "description",
            Self::LayoutName => "layout name",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum TextRefusal {
    #[error("the {field} has {length} bytes; {}", allowed(*field, *limit))]
    InvalidText {
        field: TextField,
        length: u64,
        limit: u64,
    },
}

fn allowed(field: TextField, limit: u64) -> String {
    match field {
        TextField::Description => format!("{limit} are allowed"),
        _ => format!("1 to {limit}, without control characters, are allowed"),
    }
}

impl FrameTable for TextRefusal {
    const FRAMES: &'static [FrameRow] = &[
        row(0x0401), // InvalidText
    ];
}

/// Refuses a text that is too long, empty, or contains control characters. A description may be
/// empty and may contain control characters.
///
/// Unicode never changes the set of control characters, so all versions of the program agree.
pub(crate) fn check(field: TextField, text: &str) -> Result<(), TextRefusal> {
    let sound = match field {
        TextField::Description => true,
        _ => !text.is_empty() && !text.chars().any(char::is_control),
    };
    if sound && text.len() <= field.max_bytes() {
        return Ok(());
    }
    Err(TextRefusal::InvalidText {
        field,
        length: text.len() as u64,
        limit: field.max_bytes() as u64,
    })
}
