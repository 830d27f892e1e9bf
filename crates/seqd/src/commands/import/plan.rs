//! Plans an import: from the rows of an old system, derives where each sequence begins and the step
//! that takes it there. Pure.

use std::collections::BTreeMap;

use seqd_client::api::{Mode, Sequence, validate_name};

use super::table::{Refusal, Row, Schema, Table};

/// The system whose table is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Leaf,
    TinyId,
    Counters,
}

impl System {
    /// The mode of new sequences. Counters of Redis have no gaps and increase strictly.
    pub(super) const fn mode(self) -> Mode {
        match self {
            Self::Leaf | Self::TinyId => Mode::Segment,
            Self::Counters => Mode::Strict,
        }
    }

    pub(super) const fn schema(self) -> Schema {
        match self {
            Self::Leaf => Schema {
                table: Some("leaf_alloc"),
                columns: &["biz_tag", "max_id", "step", "description", "update_time"],
                required: &["biz_tag", "max_id"],
            },
            Self::TinyId => Schema {
                table: Some("tiny_id_info"),
                columns: &[
                    "id",
                    "biz_type",
                    "begin_id",
                    "max_id",
                    "step",
                    "delta",
                    "remainder",
                    "create_time",
                    "update_time",
                    "version",
                ],
                required: &["biz_type", "max_id", "delta", "remainder"],
            },
            Self::Counters => Schema {
                table: None,
                columns: &["name", "value", "increment"],
                required: &["name", "value"],
            },
        }
    }
}

/// A sequence as the file describes it: the first value that the old system cannot have issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) line: u64,
    pub(super) name: String,
    pub(super) start: i64,
    pub(super) increment: i64,
}

/// The rules for names and values that the options add.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) prefix: &'a str,
    pub(super) margin: u64,
}

/// The sequences of a file, in its order. Identical rows are one sequence.
///
/// # Errors
/// The refusal of each row that cannot be imported, in the order of the rows.
pub(super) fn targets(
    tables: &[Table],
    system: System,
    rules: Rules<'_>,
) -> Result<Vec<Target>, Vec<Refusal>> {
    let (mut targets, mut lines) = (Vec::new(), BTreeMap::<String, usize>::new());
    let mut refused = Vec::new();
    for table in tables {
        for row in &table.rows {
            let target = match target(table, row, system, rules) {
                Ok(target) => target,
                Err(refusal) => {
                    refused.push(refusal);
                    continue;
                }
            };
            let Some(at) = lines.get(&target.name) else {
                lines.insert(target.name.clone(), targets.len());
                targets.push(target);
                continue;
            };
            let earlier: &Target = &targets[*at];
            if (earlier.start, earlier.increment) != (target.start, target.increment) {
                refused.push(conflict(earlier, &target, system));
            }
        }
    }
    if refused.is_empty() {
        Ok(targets)
    } else {
        Err(refused)
    }
}

fn conflict(earlier: &Target, later: &Target, system: System) -> Refusal {
    let name = &later.name;
    let advice = if system == System::TinyId {
        "rows of several databases form one sequence with one delta and remainder: keep one row, \
         and give it the largest max_id"
    } else {
        "keep the row with the largest value"
    };
    let reason = format!("{name} also has line {}; {advice}", earlier.line);
    Refusal::new(later.line, reason)
}

/// The values of a row by the names of their columns.
impl Table {
    fn text<'r>(&self, row: &'r Row, column: &str) -> Result<Option<&'r str>, Refusal> {
        let at = self.columns.iter().position(|name| name == column);
        let Some(at) = at else { return Ok(None) };
        match &row.cells[at] {
            Some(text) => Ok(Some(text)),
            None => Err(Refusal::new(row.line, format!("{column} is NULL"))),
        }
    }

    /// A number of at least `least`.
    fn number(&self, row: &Row, column: &str, least: i64) -> Result<i64, Refusal> {
        let text = self.text(row, column)?.unwrap_or_default().trim();
        let found = text.parse().ok().filter(|number| *number >= least);
        found.ok_or_else(|| {
            let max = i64::MAX;
            let reason = format!("{column} is {text:?}; expected a whole number, {least} to {max}");
            Refusal::new(row.line, reason)
        })
    }
}

fn target(table: &Table, row: &Row, system: System, rules: Rules<'_>) -> Result<Target, Refusal> {
    let column = system.schema().required[0];
    let name = table.text(row, column)?.unwrap_or_default();
    let name = format!("{}{name}", rules.prefix);
    if name.len() == rules.prefix.len() || validate_name(&name).is_err() {
        let reason = format!(
            "{column} gives the sequence name {name:?}; a name has 1 to 128 of A-Z a-z 0-9 . _ : - \
             and begins with a letter or a digit (--prefix is put before each)"
        );
        return Err(Refusal::new(row.line, reason));
    }
    let margin = i128::from(rules.margin);
    let (start, increment) = match system {
        System::Leaf => (i128::from(table.number(row, "max_id", 0)?) + margin, 1),
        System::TinyId => {
            let last = i128::from(table.number(row, "max_id", 0)?) + margin;
            let delta = table.number(row, "delta", 1)?;
            let remainder = table.number(row, "remainder", 0)?;
            if remainder >= delta {
                let reason = format!("remainder {remainder} is not below delta {delta}");
                return Err(Refusal::new(row.line, reason));
            }
            (first_above(last, delta, remainder), delta)
        }
        System::Counters => {
            let value = i128::from(table.number(row, "value", 0)?);
            let increment = match table.text(row, "increment")? {
                Some(_) => table.number(row, "increment", 1)?,
                None => 1,
            };
            (value + i128::from(increment) * (1 + margin), increment)
        }
    };
    let start = i64::try_from(start).map_err(|_| {
        let reason = format!("the sequence would begin at {start}, above {}", i64::MAX);
        Refusal::new(row.line, reason)
    })?;
    Ok(Target {
        line: row.line,
        name,
        start,
        increment,
    })
}

/// The first value above `last` that leaves this remainder.
fn first_above(last: i128, delta: i64, remainder: i64) -> i128 {
    let first = last + 1;
    first + (i128::from(remainder) - first).rem_euclid(i128::from(delta))
}

/// The step of an import for one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Create,
    /// Advance to the start.
    Advance,
    /// Advance to the next value, which is beyond the start already. This voids the ranges below
    /// the start that nodes may hold.
    Discard(i64),
    Equal,
    Refuse(String),
}

/// Compares a target with the sequence of its name.
pub(super) fn step(target: &Target, found: Option<&Sequence>, mode: Option<Mode>) -> Step {
    let Some(found) = found else {
        return Step::Create;
    };
    let refuse = |reason: String| Step::Refuse(format!("the sequence exists and {reason}"));
    let (start, increment) = (target.start, target.increment);
    if found.cycle {
        return refuse("cycles: it would issue old values again".to_owned());
    }
    if let Some(mode) = mode.filter(|mode| *mode != found.mode) {
        let (has, wanted) = (found.mode.as_str(), mode.as_str());
        return refuse(format!("has mode {has}, not {wanted}"));
    }
    if found.increment != increment {
        return refuse(format!(
            "has increment {}, not {increment}",
            found.increment
        ));
    }
    let apart = i128::from(found.start) - i128::from(start);
    if apart % i128::from(increment) != 0 {
        let begun = found.start;
        return refuse(format!(
            "begins at {begun}: steps of {increment} do not lead to {start}"
        ));
    }
    match found.next {
        _ if start > found.max => refuse(format!("ends at {}, below {start}", found.max)),
        None => Step::Equal,
        Some(next) if next < start => Step::Advance,
        // Only the values of a strict sequence are all issued through the log. A segment of a node,
        // or the run of the leader that issues ordered values, may still contain values below the
        // start.
        Some(next) if found.start < start && found.mode != Mode::Strict => Step::Discard(next),
        Some(_) => Step::Equal,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
