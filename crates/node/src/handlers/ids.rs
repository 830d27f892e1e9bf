//! Snowflake IDs: one, many, and what one is made of.

use std::sync::Arc;

use bytes::Bytes;
use seqd_api::{
    ErrorCode, Holder, IdFormat, IdParts, IdPartsQuery, IdQuery, IdText, Problem, Request,
};
use seqd_idgen::SnowflakeId;
use serde::Serialize;

use super::layouts::layout_named;
use super::{count_within, invalid, no_count};
use crate::app::App;
use crate::http::accept::Media;
use crate::http::answer::Answer;
use crate::http::ask::Ask;
use crate::minting::{Minted, Minter};
use crate::times::rfc3339;

/// Integers up to this many bits are exact as JavaScript numbers.
const NUMERIC_BITS: u32 = 53;

/// How the caller wants its IDs.
struct Wanted {
    minter: Arc<Minter>,
    /// `None` is plain decimal, which needs no allocation per ID.
    text: Option<IdText>,
    numeric: bool,
    count: Option<u64>,
}

impl Wanted {
    fn read(app: &App, ask: &Ask) -> Result<Wanted, Problem> {
        let minter = Arc::clone(app.minters.default());
        if ask.query.is_empty() && ask.body.is_empty() {
            return Ok(Wanted {
                minter,
                text: None,
                numeric: false,
                count: None,
            });
        }
        let query: IdQuery = ask.decode()?;
        let minter = match query.layout.as_deref() {
            None => minter,
            Some(name) => {
                layout_named(&app, name)?;
                app.minters
                    .of(name)
                    .ok_or_else(|| invalid(format!("no layout {name}")))?
            }
        };
        let is_plain = query.format.is_none() && query.pad.is_none() && query.id_prefix.is_none();
        let numeric = query.numeric.unwrap_or(false);
        if numeric && !is_plain {
            return Err(invalid("numeric goes without format, pad and id_prefix"));
        }
        let bits = minter.layout().bits();
        if numeric && bits > NUMERIC_BITS {
            let name = minter.layout().name();
            let detail = format!(
                "IDs of the layout {name} have {bits} bits: numbers above 2^53 lose digits"
            );
            return Err(invalid(detail).with_hint("leave numeric out, or take layout=js53"));
        }
        let text = if is_plain {
            None
        } else {
            Some(text_of(&query)?)
        };
        Ok(Wanted {
            minter,
            text,
            numeric,
            count: query.count,
        })
    }

    /// One ID as text.
    fn render(&self, id: u64) -> Result<String, Problem> {
        match &self.text {
            None => Ok(id.to_string()),
            Some(text) => text.render(id).map_err(|error| invalid(error.to_string())),
        }
    }
}

fn text_of(query: &IdQuery) -> Result<IdText, Problem> {
    let format = match query.format.as_deref() {
        None => IdFormat::Dec,
        Some(name) => name.parse().map_err(refused)?,
    };
    let pad = query
        .pad
        .map(|pad| usize::try_from(pad).unwrap_or(usize::MAX));
    IdText::new(format, pad, query.id_prefix.as_deref()).map_err(refused)
}

fn refused(error: seqd_api::FormatError) -> Problem {
    invalid(error.to_string())
}

async fn mint(app: &App, ask: &Ask, wanted: &Wanted, count: u32) -> Result<Minted, Problem> {
    let minted = wanted.minter.mint(&app.clock, count, ask.deadline).await;
    minted.map_err(|trouble| trouble.problem())
}

/// `/v1/id`
pub(crate) async fn one(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let wanted = Wanted::read(&app, &ask)?;
    no_count(wanted.count, "/v1/ids", IdQuery::FIELDS)?;
    let minted = mint(&app, &ask, &wanted, 1).await?;
    let id = minted.ids().next().unwrap_or_default();
    if ask.media == Media::Text {
        let mut text = wanted.render(id)?;
        text.push('\n');
        return Ok(Answer::text(text));
    }
    let rendered = wanted.render(id)?;
    let id = if wanted.numeric {
        OneId::Number(id)
    } else {
        OneId::Text(&rendered)
    };
    let layout = wanted.minter.layout().name();
    Answer::json(&OneBody {
        id,
        layout,
        worker: minted.worker().0,
        node: app.name(),
    })
}

#[derive(Serialize)]
struct OneBody<'a> {
    id: OneId<'a>,
    layout: &'a str,
    worker: u32,
    node: &'a str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OneId<'a> {
    Text(&'a str),
    Number(u64),
}

/// `/v1/ids`
pub(crate) async fn many(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let wanted = Wanted::read(&app, &ask)?;
    let limit = app.config.http.max_count;
    let count = count_within(wanted.count, u64::from(limit))?;
    let count = u32::try_from(count).unwrap_or(limit);
    let minted = mint(&app, &ask, &wanted, count).await?;
    // 19 digits, two quotes and a comma, or a line end: one buffer for the whole answer.
    let mut out = Vec::with_capacity(count as usize * 22 + 128);
    if ask.media == Media::Text {
        for id in minted.ids() {
            match &wanted.text {
                None => push_decimal(&mut out, id),
                Some(_) => out.extend_from_slice(wanted.render(id)?.as_bytes()),
            }
            out.push(b'\n');
        }
        return Ok(Answer::text(Bytes::from(out)));
    }
    out.extend_from_slice(b"{\"ids\":[");
    for (at, id) in minted.ids().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match (&wanted.text, wanted.numeric) {
            (None, true) => push_decimal(&mut out, id),
            (None, false) => {
                out.push(b'"');
                push_decimal(&mut out, id);
                out.push(b'"');
            }
            (Some(_), _) => push_json(&mut out, &wanted.render(id)?)?,
        }
    }
    let layout = wanted.minter.layout().name();
    out.extend_from_slice(b"],\"layout\":");
    push_json(&mut out, layout)?;
    out.extend_from_slice(b",\"worker\":");
    push_decimal(&mut out, u64::from(minted.worker().0));
    out.extend_from_slice(b",\"node\":");
    push_json(&mut out, app.name())?;
    out.push(b'}');
    Ok(Answer::json_bytes(out))
}

fn push_json(out: &mut Vec<u8>, text: &str) -> Result<(), Problem> {
    serde_json::to_writer(out, text)
        .map_err(|error| Problem::new(ErrorCode::Internal, error.to_string()))
}

/// Appends decimal digits without a `String` in between.
fn push_decimal(out: &mut Vec<u8>, mut number: u64) {
    // 20 digits hold 2^64 - 1.
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// `/v1/ids/{id}`
pub(crate) async fn parts(app: Arc<App>, ask: Ask) -> Result<Answer, Problem> {
    let query: IdPartsQuery = ask.decode()?;
    let layout = layout_named(&app, query.layout.as_deref().unwrap_or("default"))?;
    let format = match query.format.as_deref() {
        None => IdFormat::Dec,
        Some(name) => name.parse().map_err(refused)?,
    };
    let id = format.parse(ask.name()).map_err(refused)?;
    let parts = layout
        .unpack(SnowflakeId::from_u64(id))
        .map_err(|error| invalid(error.to_string()))?;
    let holder = app.raft.state(|state| {
        let holder = state.holder_at(layout.name(), parts.worker, parts.tick)?;
        let node = holder
            .node
            .and_then(|id| state.node(id))
            .map(|node| node.name.clone());
        Some(Holder {
            owner: holder.owner,
            node,
            lease: holder.lease.0,
            from_tick: holder.from_tick.0,
            fence_tick: holder.fence.0,
        })
    });
    let at = layout.wall_at(parts.tick);
    Answer::json(&IdParts {
        id,
        layout: layout.name().to_owned(),
        time: rfc3339(at),
        unix_ms: i64::try_from(at.0).unwrap_or(i64::MAX),
        tick: parts.tick.0,
        datacenter: layout.datacenter_of(parts.worker),
        worker: layout.worker_in_datacenter(parts.worker),
        sequence: parts.sequence,
        hex: IdFormat::Hex.encode(id),
        base62: IdFormat::Base62.encode(id),
        crockford: IdFormat::Crockford.encode(id),
        holder,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_written_as_by_the_formatter() {
        for number in [0, 9, 10, 117_450_583_018_840_065, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
