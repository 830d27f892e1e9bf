//! A deleted sequence serves no request until it is created again, and an existing one is always
//! found.

use super::{Asked, Step};
use crate::checkers::Violation;
use crate::history::{At, Outcome};

/// The error code for a sequence that does not exist.
const NOT_FOUND: &str = "not-found";

/// A creation or a deletion that had an effect, or may have had one.
struct Change {
    call: At,
    /// The time of its response; the end of time if its outcome is unknown.
    back: At,
    is_certain: bool,
}

pub(super) fn check(history: &[Step]) -> Result<(), Violation> {
    let deletions = changes(history, Asked::Delete);
    let creations = changes(history, Asked::Create);
    for step in history {
        let op = &step.op;
        let uses = !matches!(step.asked, Asked::Create | Asked::Delete);
        let broken = match &op.outcome {
            Outcome::Ok(_) if uses => {
                let gone = |deletion: &&Change| {
                    let after = creations.iter().filter(|made| made.back > deletion.call);
                    let again = after.map(|made| made.call).min();
                    deletion.is_certain
                        && deletion.back < op.call
                        && again.is_none_or(|again| op.back < again)
                };
                deletions.iter().find(gone).map(|_| "it was deleted")
            }
            Outcome::Refused(code) if uses && code == NOT_FOUND => {
                let may_be_gone = deletions.iter().any(|deletion| {
                    let made_since = creations.iter().any(|made| {
                        made.is_certain && made.call > deletion.back && made.back < op.call
                    });
                    deletion.call < op.back && !made_since
                });
                (!may_be_gone).then_some("it is there")
            }
            _ => None,
        };
        if let Some(why) = broken {
            let detail = format!("{step:?}, and {why}");
            return Err(Violation::new("existence", detail));
        }
    }
    Ok(())
}

fn changes(history: &[Step], asked: Asked) -> Vec<Change> {
    let of_kind = history.iter().filter(|step| step.asked == asked);
    let changes = of_kind.filter_map(|step| {
        let (back, is_certain) = match step.op.outcome {
            Outcome::Ok(_) => (step.op.back, true),
            Outcome::Unknown(_) => (At(u64::MAX), false),
            Outcome::Refused(_) => return None,
        };
        Some(Change {
            call: step.op.call,
            back,
            is_certain,
        })
    });
    changes.collect()
}
