//! The pauses of a stream of IDs that had to serve.

use std::time::Duration;

use crate::history::At;

/// The duty of a stream from a point in time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// The stream may refuse.
    Free,
    /// The stream must serve: the first response within this time, then without a long pause.
    Serve { first: Duration },
}

/// A period without IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    pub from: At,
    pub to: At,
    /// The permitted length.
    pub limit: Duration,
}

impl Stop {
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    fn is_late(&self) -> bool {
        self.length() > self.limit
    }
}

/// The findings for one stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Judged {
    /// The longest time between two responses.
    pub stop: Option<Stop>,
    /// The longest times from the begin of the duty to the first response, one for each limit.
    pub returns: Vec<Stop>,
    /// All periods that were longer than their limits.
    pub late: Vec<Stop>,
}

impl Judged {
    fn stopped(&mut self, stop: Stop) {
        if self
            .stop
            .is_none_or(|longest| longest.length() < stop.length())
        {
            self.stop = Some(stop);
        }
        self.late.extend(stop.is_late().then_some(stop));
    }

    fn returned(&mut self, stop: Stop) {
        let mut known = self.returns.iter_mut();
        match known.find(|longest| longest.limit == stop.limit) {
            Some(longest) if longest.length() >= stop.length() => {}
            Some(longest) => *longest = stop,
            None => self.returns.push(stop),
        }
        self.late.extend(stop.is_late().then_some(stop));
    }
}

/// Judges a stream that served at these times, in order, under these duties, until `end`. A pause
/// between two responses may last for `limit`.
pub fn judge(served: &[At], duties: &[(At, Duty)], limit: Duration, end: At) -> Judged {
    let mut judged = Judged::default();
    let ends = duties.iter().skip(1).map(|(at, _)| *at).chain([end]);
    for ((from, duty), to) in duties.iter().copied().zip(ends) {
        let Duty::Serve { first } = duty else {
            continue;
        };
        let begin = served.partition_point(|at| *at < from);
        let after = served.partition_point(|at| *at <= to);
        let mut last = None;
        for at in served.get(begin..after).unwrap_or_default() {
            match last {
                None => judged.returned(stop(from, *at, first)),
                Some(last) => judged.stopped(stop(last, *at, limit)),
            }
            last = Some(*at);
        }
        match last {
            // The time of the first response is unknown.
            None => judged
                .late
                .extend(Some(stop(from, to, first)).filter(Stop::is_late)),
            Some(last) => judged.stopped(stop(last, to, limit)),
        }
    }
    judged
}

/// Adds a duty if its kind differs from the previous one. A continuing duty keeps its beginning.
pub fn change(duties: &mut Vec<(At, Duty)>, at: At, duty: Duty) {
    let last = duties.last().map_or(Duty::Free, |(_, duty)| *duty);
    if (last == Duty::Free) != (duty == Duty::Free) {
        duties.push((at, duty));
    }
}

fn stop(from: At, to: At, limit: Duration) -> Stop {
    Stop { from, to, limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(10);
    const FIRST: Duration = Duration::from_nanos(30);
    const SERVE: Duty = Duty::Serve { first: FIRST };

    fn judged(served: &[u64], duties: &[(u64, Duty)], end: u64) -> Judged {
        let served: Vec<At> = served.iter().map(|at| At(*at)).collect();
        let duties: Vec<(At, Duty)> = duties.iter().map(|(at, duty)| (At(*at), *duty)).collect();
        judge(&served, &duties, LIMIT, At(end))
    }

    #[test]
    fn a_stream_that_serves_all_the_time_is_not_late() {
        let found = judged(&[25, 35, 40, 50], &[(0, SERVE)], 60);
        assert_eq!(found.late, []);
        assert_eq!(found.stop, Some(stop(At(25), At(35), LIMIT)));
        assert_eq!(found.returns, [stop(At(0), At(25), FIRST)]);
    }

    #[test]
    fn a_stop_in_the_middle_and_at_the_end_is_found() {
        let found = judged(&[0, 11, 20], &[(0, SERVE)], 31);
        let expected = [stop(At(0), At(11), LIMIT), stop(At(20), At(31), LIMIT)];
        assert_eq!(found.late, expected);
        let found = judged(&[0, 8], &[(0, SERVE), (19, Duty::Free)], 90);
        assert_eq!(found.late, [stop(At(8), At(19), LIMIT)]);
    }

    #[test]
    fn a_return_that_takes_too_long_or_does_not_come_is_found() {
        let duties = [(0, Duty::Free), (100, SERVE)];
        let found = judged(&[99, 131], &duties, 132);
        assert_eq!(found.late, [stop(At(100), At(131), FIRST)]);
        let found = judged(&[99], &duties, 131);
        assert_eq!(found.late, [stop(At(100), At(131), FIRST)]);
        assert_eq!(judged(&[99], &duties, 130).late, []);
    }

    #[test]
    fn what_a_stream_does_while_it_may_refuse_does_not_count() {
        let duties = [(0, SERVE), (10, Duty::Free), (500, SERVE)];
        assert_eq!(judged(&[5, 300, 520, 525], &duties, 530).late, []);
    }

    #[test]
    fn the_longest_return_of_each_limit_is_kept() {
        let long = Duty::Serve { first: FIRST * 2 };
        let duties = [(0, SERVE), (10, long), (100, SERVE)];
        let found = judged(&[3, 50, 109, 110], &duties, 110);
        let expected = [stop(At(0), At(3), FIRST), stop(At(10), At(50), FIRST * 2)];
        assert_eq!(found.returns[1], expected[1]);
        assert_eq!(found.returns[0].length(), Duration::from_nanos(9));
        assert_eq!(found.late, [stop(At(50), At(100), LIMIT)]);
    }
}
