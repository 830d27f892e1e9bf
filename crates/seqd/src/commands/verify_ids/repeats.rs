//! Finds repeated numbers in a long column with bounded memory: numbers are collected up to a
//! limit, sorted, and written to a temporary file as one run. At the end the runs are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read as _, Seek as _, Write as _};

/// The number of numbers that are collected before they are written, which takes 64 MiB.
pub(crate) const GATHERED: usize = 8 << 20;

/// The repeated numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RepeatedNumbers {
    /// The number of distinct numbers that occur more than once.
    pub(crate) numbers: u64,
    /// The number of surplus occurrences.
    pub(crate) surplus: u64,
    /// The smallest repeated numbers, each with its number of occurrences.
    pub(crate) examples: Vec<(u64, u64)>,
}

/// Collects numbers and counts their repetitions.
pub(crate) struct Repeats {
    gathered: Vec<u64>,
    limit: usize,
    runs: Vec<File>,
}

impl Repeats {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            gathered: Vec::new(),
            limit,
            runs: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, number: u64) -> io::Result<()> {
        self.gathered.push(number);
        if self.gathered.len() < self.limit {
            return Ok(());
        }
        self.gathered.sort_unstable();
        let mut file = BufWriter::with_capacity(1 << 20, tempfile::tempfile()?);
        for number in self.gathered.drain(..) {
            file.write_all(&number.to_le_bytes())?;
        }
        let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.runs.push(file);
        Ok(())
    }

    /// Returns the repeated numbers, with at most `examples` examples.
    pub(crate) fn finish(mut self, examples: usize) -> io::Result<RepeatedNumbers> {
        self.gathered.sort_unstable();
        let mut counting = Counting::new(examples);
        if self.runs.is_empty() {
            for number in self.gathered {
                counting.next(number);
            }
            return Ok(counting.finish());
        }
        let mut rest = self.gathered.into_iter();
        let mut runs: Vec<Run> = self.runs.into_iter().map(Run::new).collect();
        // The smallest number of each run, and of the numbers in memory, which have the last index.
        let memory = runs.len();
        let mut heads = BinaryHeap::new();
        for (at, run) in runs.iter_mut().enumerate() {
            heads.extend(run.next()?.map(|number| Reverse((number, at))));
        }
        heads.extend(rest.next().map(|number| Reverse((number, memory))));
        while let Some(Reverse((number, at))) = heads.pop() {
            counting.next(number);
            let next = match runs.get_mut(at) {
                Some(run) => run.next()?,
                None => rest.next(),
            };
            heads.extend(next.map(|number| Reverse((number, at))));
        }
        Ok(counting.finish())
    }
}

/// A sorted file of numbers.
struct Run(BufReader<File>);

impl Run {
    fn new(file: File) -> Self {
        Self(BufReader::with_capacity(1 << 18, file))
    }

    fn next(&mut self) -> io::Result<Option<u64>> {
        let mut bytes = [0; 8];
        match self.0.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(u64::from_le_bytes(bytes))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Counts equal neighbours in sorted numbers.
struct Counting {
    found: RepeatedNumbers,
    most: usize,
    last: Option<(u64, u64)>,
}

impl Counting {
    fn new(most: usize) -> Self {
        Self {
            found: RepeatedNumbers::default(),
            most,
            last: None,
        }
    }

    fn next(&mut self, number: u64) {
        match &mut self.last {
            Some((last, times)) if *last == number => *times += 1,
            _ => {
                self.close();
                self.last = Some((number, 1));
            }
        }
    }

    fn close(&mut self) {
        if let Some((number, times)) = self.last.filter(|(_, times)| *times > 1) {
            self.found.numbers += 1;
            self.found.surplus += times - 1;
            if self.found.examples.len() < self.most {
                self.found.examples.push((number, times));
            }
        }
    }

    fn finish(mut self) -> RepeatedNumbers {
        self.close();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_numbers_are_found_over_any_number_of_runs() {
        // Every number from 0 to 99 once, in a mixed order, and some repeated.
        let column: Vec<u64> = (0..100).map(|at| at * 37 % 100).collect();
        let again = [5, 99, 5, 0, 42];
        for limit in [1, 3, 7, 50, 104, 105, 1000] {
            let mut repeats = Repeats::new(limit);
            for number in column.iter().chain(&again) {
                repeats.push(*number).unwrap();
            }
            let found = repeats.finish(3).unwrap();
            let expected = RepeatedNumbers {
                numbers: 4,
                surplus: 5,
                examples: vec![(0, 2), (5, 3), (42, 2)],
            };
            assert_eq!(found, expected, "runs of {limit}");
        }
        assert_eq!(
            Repeats::new(3).finish(3).unwrap(),
            RepeatedNumbers::default()
        );
    }
}
