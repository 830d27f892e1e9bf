//! Planted histories of locks: each check passes a correct one and names the violation in a wrong
//! one.

use super::*;

fn hold(token: u64, from_ms: u64, end_ms: u64) -> Hold {
    Hold {
        lock: 0,
        token,
        owner: format!("owner-{token}"),
        nonce: u128::from(token),
        permits: 1,
        shared: false,
        ttl_ms: 10,
        delay_ms: 0,
        from_ms,
        until_ms: from_ms + 10,
        end_ms,
        end: HoldEnd::Released,
        renewals: 0,
        was_shortened: false,
    }
}

fn asked(token: u64, answered: Answered) -> Asked {
    Asked {
        lock: 0,
        owner: format!("owner-{token}"),
        nonce: u128::from(token),
        call: At(0),
        answered,
    }
}

#[track_caller]
fn finds<T: std::fmt::Debug>(checked: Result<T, Violation>, invariant: &str) {
    assert_eq!(checked.unwrap_err().invariant, invariant);
}

fn of_lock(lock: usize, hold: Hold) -> Hold {
    Hold { lock, ..hold }
}

#[test]
fn two_holders_at_one_time_are_found() {
    let sound = [
        hold(1, 0, 10),
        hold(2, 10, 12),
        of_lock(1, hold(3, 5, 9)),
        hold(4, 12, 12),
        hold(5, 12, 20),
    ];
    assert_eq!(held_apart(&sound), Ok(5));
    let mut planted = sound.to_vec();
    planted[1].from_ms = 9;
    finds(held_apart(&planted), "one holder by cluster time");
    // Not only neighbours are compared.
    let far = [hold(1, 0, 30), hold(2, 31, 32), hold(3, 20, 25)];
    finds(held_apart(&far), "one holder by cluster time");
}

#[test]
fn too_many_holders_and_an_exclusive_one_next_to_shared_ones_are_found() {
    let permit = |token, from, to| Hold {
        permits: 2,
        ..hold(token, from, to)
    };
    let two = [permit(1, 0, 10), permit(2, 1, 9), permit(3, 9, 12)];
    assert_eq!(held_apart(&two), Ok(3));
    let three = [permit(1, 0, 10), permit(2, 1, 9), permit(3, 8, 12)];
    finds(held_apart(&three), "one holder by cluster time");

    let share = |token, from, to| Hold {
        shared: true,
        ..hold(token, from, to)
    };
    let sharing = [share(1, 0, 10), share(2, 1, 9), hold(3, 10, 12)];
    assert_eq!(held_apart(&sharing), Ok(3));
    for beside in [hold(3, 9, 12), hold(0, 0, 1)] {
        let mut planted = sharing[..2].to_vec();
        planted.push(beside);
        finds(held_apart(&planted), "one holder by cluster time");
    }
}

#[test]
fn two_clients_that_count_themselves_as_the_holder_are_found() {
    let counted = |token, from, to| Counted {
        lock: 0,
        token,
        permits: 1,
        shared: false,
        from: At(from),
        to: At(to),
    };
    // The renewed hold with token 1 overlaps with itself.
    let sound = [counted(1, 0, 10), counted(1, 8, 20), counted(2, 20, 30)];
    assert_eq!(counted_apart(&sound), Ok(3));
    let planted = [counted(1, 0, 10), counted(1, 8, 20), counted(2, 19, 30)];
    finds(counted_apart(&planted), "one counts itself as the holder");
}

#[test]
fn an_equal_or_smaller_token_is_found() {
    assert_eq!(tokens_rise(&[hold(1, 0, 1), hold(4, 0, 1)]), Ok(()));
    for token in [3, 4] {
        // Across all locks.
        let planted = [hold(4, 0, 1), of_lock(1, hold(token, 2, 3))];
        finds(tokens_rise(&planted), "tokens rise with every grant");
    }
}

#[test]
fn a_hold_that_ends_early_is_found() {
    let ran_out = Hold {
        end: HoldEnd::RanOut,
        ..hold(1, 0, 10)
    };
    assert_eq!(ends(&[ran_out.clone(), hold(2, 10, 11)]), Ok(()));
    let gone = Hold {
        end: HoldEnd::Unexplained,
        ..hold(1, 0, 5)
    };
    let short = Hold {
        until_ms: 9,
        ..hold(1, 0, 5)
    };
    let fell = Hold {
        was_shortened: true,
        ..ran_out
    };
    for planted in [gone, short, fell] {
        finds(ends(&[planted]), "no hold ends early");
    }
}

#[test]
fn a_grant_within_the_delay_is_found() {
    let delayed = |end| Hold {
        end,
        delay_ms: 5,
        ..hold(1, 0, 10)
    };
    let ran_out = delayed(HoldEnd::RanOut);
    assert_eq!(ends(&[ran_out.clone(), hold(2, 15, 16)]), Ok(()));
    let released = delayed(HoldEnd::Released);
    assert_eq!(ends(&[released, hold(2, 10, 11)]), Ok(()));
    let planted = [ran_out, hold(2, 14, 15)];
    finds(ends(&planted), "nobody is granted a delayed lock");
}

#[test]
fn an_answer_to_a_client_that_the_log_lacks_is_found() {
    let held = |token| Answered::Held { token, back: At(1) };
    let gone = Answered::Gone { since: At(1) };
    let holds = [hold(1, 0, 10), hold(2, 10, 20)];
    let sound = [asked(1, held(1)), asked(2, gone)];
    let expected = UnansweredGrants {
        grants: 1,
        ran_out: 0,
        longest_ms: 10,
    };
    assert_eq!(answered(&sound, &holds), Ok(expected));

    let never = "who is answered held was granted it";
    finds(answered(&[asked(3, held(3))], &holds), never);
    finds(answered(&[asked(2, held(1))], &holds), never);
    let twice = [asked(1, held(1)), asked(1, held(1))];
    finds(
        answered(&twice, &holds),
        "a token is answered to one request",
    );

    let mut withdrawn = holds.clone();
    withdrawn[0].end = HoldEnd::Withdrawn;
    finds(
        answered(&sound, &withdrawn),
        "who is answered held is not withdrawn",
    );
    let mut long = holds.clone();
    long[1].end_ms = 22;
    finds(answered(&sound, &long), "who is gone holds for its ttl");
    let refused = [
        asked(1, held(1)),
        asked(2, Answered::Refused { back: At(1) }),
    ];
    finds(answered(&refused, &long), "who is gone holds for its ttl");
    let mut renewed = holds;
    renewed[1].renewals = 1;
    finds(answered(&sound, &renewed), "who is gone holds for its ttl");
}

#[test]
fn an_older_write_of_a_client_that_counts_itself_as_the_holder_is_found() {
    let write = |token, counts_on_it| Write {
        lock: 0,
        token,
        counts_on_it,
    };
    let sound = [
        write(1, true),
        write(2, true),
        write(2, true),
        write(1, false),
        Write {
            lock: 1,
            ..write(1, true)
        },
    ];
    let counts = WriteCounts {
        writes: 5,
        outdated: 1,
    };
    assert_eq!(writes(&sound), Ok(counts));
    let mut planted = sound;
    planted[3] = write(1, true);
    finds(writes(&planted), "no holder is refused");
}

#[test]
fn a_cluster_time_that_jumps_or_runs_fast_is_found() {
    let entry = |ms, call_ms: u64, back_ms: u64| Stamped {
        ms,
        call: At(call_ms * 1_000_000),
        back: At(back_ms * 1_000_000),
    };
    let sound = vec![
        entry(1000, 0, 5),
        entry(1010, 10, 15),
        // No leader for a second: cluster time stopped.
        entry(1012, 1010, 1020),
        entry(1022, 1020, 1030),
        // Two entries with the same time, the later one first.
        entry(1022, 1060, 1070),
        entry(1022, 1020, 1025),
    ];
    assert_eq!(never_fast(sound.clone()), Ok(6));
    let mut jumps = sound.clone();
    jumps[1].ms = 1030;
    finds(never_fast(jumps), "the cluster's time is never fast");
    let mut makes_up = sound;
    makes_up[3].ms = 1800;
    finds(never_fast(makes_up), "the cluster's time is never fast");
}
