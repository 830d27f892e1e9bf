//! The pauses of a stream of IDs while it had to serve.

use std::time::Duration;

use crate::history::At;

/// The duty of a stream from some time on. `None` means that it may refuse. Otherwise it must serve
/// for the first time within this duration, and then without a long stop.
pub type Duty = Option<Duration>;

/// A time without IDs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    pub from: At,
    pub to: At,
    /// The longest allowed duration.
    pub limit: Duration,
    /// The stop began when the stream had to serve again, and not at a response.
    pub is_return: bool,
}

impl Stop {
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    pub fn is_late(&self) -> bool {
        self.length() > self.limit
    }
}

/// Returns the stops of a stream that served at these times, in order, under these duties, until
/// `end`. `limit` is the longest allowed stop between two responses.
pub fn stops(served: &[At], duties: &[(At, Duty)], limit: Duration, end: At) -> Vec<Stop> {
    let mut stops = Vec::new();
    let ends = duties.iter().skip(1).map(|(at, _)| *at).chain([end]);
    for ((begin, duty), end) in duties.iter().copied().zip(ends) {
        let Some(first) = duty else {
            continue;
        };
        let mut stop = Stop {
            from: begin,
            to: end,
            limit: first,
            is_return: true,
        };
        for to in served.iter().filter(|at| (begin..=end).contains(at)) {
            stops.push(Stop { to: *to, ..stop });
            (stop.from, stop.limit, stop.is_return) = (*to, limit, false);
        }
        stops.push(stop);
    }
    stops
}

/// Appends a duty if it begins or ends the need to serve. A duty that continues keeps its
/// beginning.
pub fn change(duties: &mut Vec<(At, Duty)>, at: At, duty: Duty) {
    let last = duties.last().and_then(|(_, duty)| *duty);
    if last.is_none() != duty.is_none() {
        duties.push((at, duty));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_nanos(10);
    const FIRST: Duration = Duration::from_nanos(30);
    const SERVE: Duty = Some(FIRST);

    /// The beginnings and ends of stops that are too long.
    fn late(served: &[u64], duties: &[(u64, Duty)], end: u64) -> Vec<(u64, u64)> {
        let served: Vec<At> = served.iter().map(|at| At(*at)).collect();
        let duties: Vec<(At, Duty)> = duties.iter().map(|(at, duty)| (At(*at), *duty)).collect();
        let stops = stops(&served, &duties, LIMIT, At(end));
        let late = stops.iter().filter(|stop| stop.is_late());
        late.map(|stop| (stop.from.0, stop.to.0)).collect()
    }

    #[test]
    fn a_stop_in_the_middle_and_at_the_end_is_found() {
        assert_eq!(late(&[25, 35, 40, 50], &[(0, SERVE)], 60), []);
        assert_eq!(late(&[0, 11, 20], &[(0, SERVE)], 31), [(0, 11), (20, 31)]);
        assert_eq!(late(&[0, 8], &[(0, SERVE), (19, None)], 90), [(8, 19)]);
    }

    #[test]
    fn a_return_that_takes_too_long_or_does_not_come_is_found() {
        let duties = [(0, None), (100, SERVE)];
        assert_eq!(late(&[99, 131], &duties, 132), [(100, 131)]);
        assert_eq!(late(&[99], &duties, 131), [(100, 131)]);
        assert_eq!(late(&[99], &duties, 130), []);
        let duties = [(0, SERVE), (10, Some(FIRST * 2)), (100, SERVE)];
        assert_eq!(late(&[3, 50, 109, 110], &duties, 110), [(50, 100)]);
    }

    #[test]
    fn gaps_of_a_stream_that_may_refuse_do_not_count() {
        let duties = [(0, SERVE), (10, None), (500, SERVE)];
        assert_eq!(late(&[5, 300, 520, 525], &duties, 530), []);
    }
}
