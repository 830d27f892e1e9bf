//! The parser's suggestions for a mistyped command. Destructive commands are not suggested, because
//! users may run a suggested command without reading it carefully.

use clap::error::{ContextKind, ContextValue};

/// The names of commands that end, remove, overwrite or use up something.
const DESTRUCTIVE: &[&str] = &[
    "abandon",
    "advance",
    "break",
    "consume",
    "delete",
    "demote",
    "drain",
    "recover-quorum",
    "release",
    "remove",
    "replace",
    "reset",
    "restore",
    "revoke",
];

/// Removes suggested commands that are destructive from an error of the parser.
pub(crate) fn without_destructive(mut error: clap::Error) -> clap::Error {
    let kept = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::String(name)) => keep(std::slice::from_ref(name)),
        Some(ContextValue::Strings(names)) => keep(names),
        _ => None,
    };
    if let Some(names) = kept {
        error.remove(ContextKind::SuggestedSubcommand);
        if !names.is_empty() {
            let names = ContextValue::Strings(names);
            error.insert(ContextKind::SuggestedSubcommand, names);
        }
    }
    // A tip for an unknown option may name a command that has it.
    if let Some(ContextValue::StyledStrs(tips)) = error.get(ContextKind::Suggested) {
        let is_harmless = |tip: &clap::builder::StyledStr| {
            let text = tip.to_string();
            let mut words = text.split(|of: char| !(of.is_alphanumeric() || of == '-'));
            !words.any(|word| DESTRUCTIVE.contains(&word))
        };
        let tips = tips.iter().filter(|tip| is_harmless(tip)).cloned();
        let tips = ContextValue::StyledStrs(tips.collect());
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// The harmless names; `None` if all are harmless.
fn keep(names: &[String]) -> Option<Vec<String>> {
    let harmless = |name: &&String| !DESTRUCTIVE.contains(&name.as_str());
    let kept: Vec<String> = names.iter().filter(harmless).cloned().collect();
    (kept.len() < names.len()).then_some(kept)
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory as _, Parser as _};

    use super::*;
    use crate::cli::Cli;

    /// The error text for a command line that does not parse.
    fn text_of(words: &[String]) -> Option<String> {
        let line = std::iter::once("seqd").chain(words.iter().map(String::as_str));
        let error = Cli::try_parse_from(line).err()?;
        Some(without_destructive(error).to_string())
    }

    /// Typing errors in a name: a missing letter, an extra one, a wrong one, and two swapped
    /// letters.
    fn mistyped(name: &str) -> Vec<String> {
        let letters: Vec<char> = name.chars().collect();
        let mut all = Vec::new();
        for at in 0..letters.len() {
            for with in ['e', 'x'] {
                let mut other = letters.clone();
                other[at] = with;
                all.push(other);
                let mut more = letters.clone();
                more.insert(at, with);
                all.push(more);
            }
            let mut less = letters.clone();
            less.remove(at);
            all.push(less);
            if at > 0 {
                let mut swapped = letters.clone();
                swapped.swap(at - 1, at);
                all.push(swapped);
            }
        }
        let all = all.into_iter().map(String::from_iter);
        all.filter(|text| text != name && !text.is_empty())
            .collect()
    }

    /// The lines of an error that suggest something.
    fn tips(text: &str) -> Vec<&str> {
        text.lines().filter(|line| line.contains("tip:")).collect()
    }

    fn check_below(path: &[String], command: &Command, seen: &mut Seen) {
        for inner in command.get_subcommands() {
            for name in mistyped(inner.get_name()) {
                let words = [path, &[name]].concat();
                let Some(text) = text_of(&words) else {
                    continue;
                };
                for tip in tips(&text) {
                    let named = DESTRUCTIVE.iter().find(|name| tip.contains(**name));
                    assert_eq!(named, None, "{words:?}: {text}");
                    seen.tips += 1;
                }
            }
            seen.names.push(inner.get_name().to_owned());
            let path = [path, &[inner.get_name().to_owned()]].concat();
            check_below(&path, inner, seen);
        }
    }

    #[derive(Default)]
    struct Seen {
        names: Vec<String>,
        tips: usize,
    }

    #[test]
    fn no_mistyped_command_is_answered_with_a_destructive_one() {
        let mut seen = Seen::default();
        check_below(&[], &Cli::command(), &mut seen);
        assert!(seen.tips > 100, "harmless commands are suggested");
        for name in DESTRUCTIVE {
            assert!(seen.names.iter().any(|it| it == name), "{name}");
        }
    }

    #[test]
    fn a_mistyped_demote_suggests_nothing_and_a_mistyped_promote_promote() {
        let text = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            text_of(&words).unwrap()
        };
        let demoted = text("member demot n4");
        assert!(
            demoted.contains("unrecognized subcommand 'demot'"),
            "{demoted}"
        );
        assert_eq!(tips(&demoted), [""; 0], "{demoted}");
        assert!(text("member promot n4").contains("'promote'"));
        for line in [
            "member remov n4",
            "seq delet a",
            "seq creat --if-revision 3",
            "member --yess",
        ] {
            let text = text(line);
            let named = DESTRUCTIVE
                .iter()
                .find(|name| tips(&text).iter().any(|it| it.contains(**name)));
            assert_eq!(named, None, "{line}: {text}");
        }
    }
}
