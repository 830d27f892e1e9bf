//! The contract with clients: the responses to each request and each command, as scripts that read
//! as stories. The module `script` documents their format.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "the runner of scripts is test code too: a panic with a message is how it fails"
)]

mod answer;
mod bad_inputs;
mod documented;
mod effects;
mod pattern;
mod run;
mod script;
mod vocabulary;

/// Defines a test for each script.
macro_rules! scripts {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                let file = concat!(stringify!($name), ".txt");
                run::run(file, include_str!(concat!(stringify!($name), ".txt")));
            }
        )*
    };
}

scripts! {
    access
    cli
    dry_runs
    http
    keys
    layouts
    locks
    ordered
    sequences
    tenants
    workers
}
