//! Longer runs of the stories, with verdicts and figures.

fn main() {}
