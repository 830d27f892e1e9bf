//! Each story of the folder `stories`, played: commands in, outcomes out.
//!
//! To see what a changed story leads to, set `SEQD_WRITE_STORIES=1`: the outcomes are then written
//! into the files. Read the difference before you keep it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories")
}

fn check(story: &str) {
    let path = folder().join(format!("{story}.story"));
    let told = std::fs::read_to_string(&path).unwrap();
    let seen = support::story::play(&told);
    if std::env::var_os("SEQD_WRITE_STORIES").is_some() {
        std::fs::write(&path, &seen).unwrap();
    }
    assert_eq!(seen, told, "the story {story} goes otherwise than told");
}

macro_rules! stories {
    ($($story:ident)*) => {
        $(
            #[test]
            fn $story() {
                check(stringify!($story));
            }
        )*

        #[test]
        fn every_file_is_a_story_that_is_played() {
            let played = [$(stringify!($story)),*];
            for file in std::fs::read_dir(folder()).unwrap() {
                let file = file.unwrap().file_name().into_string().unwrap();
                let story = file.strip_suffix(".story").unwrap();
                assert!(played.contains(&story), "{file} is never played");
            }
        }
    };
}

stories! {
    a_clock_that_jumped_cannot_burn_the_future
    a_deleted_sequence_comes_back_above_its_mark
    a_delayed_extend_cannot_lower_a_fence
    a_release_without_a_last_tick_leaves_the_fence
    a_removed_nodes_leases_run_out
    a_return_that_arrives_twice
    a_sequence_is_created_once
    advance_between_grant_and_return
    advance_moves_forward_only
    cycling_sequences_begin_again
    every_start_is_a_new_holder
    founding_happens_once
    a_restored_cluster_begins_past_the_old_one
    a_restored_cluster_moves_its_sequences
    joining_nodes_get_ids_above_all_others
    leases_live_by_cluster_time
    sequences_end
    strict_requests_stand_each_for_itself
    two_refills_in_one_entry
    which_worker_a_lease_gets
    workers_of_a_datacenter
    workers_run_out
}
