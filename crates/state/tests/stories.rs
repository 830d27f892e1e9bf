//! Plays each story in the folder `stories`: applies its commands and compares their outcomes.
//!
//! After a change of a story, set `SEQD_WRITE_STORIES=1` to write the outcomes to the files. Review
//! the difference before you keep it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

#[test]
fn every_story_matches_its_expected_answers() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories");
    let mut stories = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let seen = support::story::play(&text);
        if std::env::var_os("SEQD_WRITE_STORIES").is_some() {
            std::fs::write(&path, &seen).unwrap();
        }
        assert_eq!(seen, text, "{} goes otherwise than written", path.display());
        stories += 1;
    }
    assert!(stories >= 22, "only {stories} stories were found");
}
