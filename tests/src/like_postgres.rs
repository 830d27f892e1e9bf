//! Random sequences, each defined and drawn from in the same way on a cluster and on a PostgreSQL
//! server.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::http;
use crate::postgres::Postgres;
use crate::report::Report;
use crate::seed::Random;

/// The definitions of one session of PostgreSQL, whose statement must fit an argument of a process.
const TOGETHER: usize = 100;

/// The largest number of values of a draw, and the single values that are drawn at the end.
const MOST_VALUES: u64 = 5;
const AT_THE_END: usize = 6;

/// The text of a draw that finds too few values.
const EXHAUSTED: &str = "exhausted";

/// SQLSTATE 2200H, `sequence_generator_limit_exceeded`.
const EXHAUSTED_STATE: &str = "error 2200H";

/// Creates a sequence, or draws from the one with this name. Returns the SQLSTATE of a failure.
const FUNCTION: &str = "
    CREATE FUNCTION answer(command text) RETURNS text LANGUAGE plpgsql AS $$
    BEGIN
        IF command NOT LIKE 'CREATE %' THEN
            RETURN nextval(command);
        END IF;
        EXECUTE command;
        RETURN 'made';
    EXCEPTION WHEN OTHERS THEN
        RETURN 'error ' || SQLSTATE;
    END $$";

/// A definition. Both sides have the same defaults for omitted parts.
#[derive(Debug, Clone, Copy)]
struct Definition {
    start: Option<i64>,
    increment: Option<i64>,
    min: Option<i64>,
    max: Option<i64>,
    cycles: bool,
}

/// The cases that the comparison covered, and the differences.
#[derive(Debug, Default)]
pub struct Compared {
    definitions: usize,
    refused: usize,
    values: usize,
    exhausted: usize,
    differences: Vec<String>,
}

/// The draws of a sequence on the cluster: the requested number of values, and the values or
/// [`EXHAUSTED`].
type Draws = Vec<(u64, Result<Vec<String>, String>)>;

fn number(random: &mut Random) -> i64 {
    let small = random.below(41) as i64 - 20;
    match random.below(12) {
        0 => i64::MAX - random.below(20) as i64,
        1 => i64::MIN + random.below(20) as i64,
        2 => random.next_u64() as i64,
        _ => small,
    }
}

impl Definition {
    fn random(random: &mut Random) -> Self {
        let mut part = |odds: u64| (random.below(odds) == 0).then(|| number(random));
        let (start, increment) = (part(2), part(1));
        let (min, max) = (part(2), part(2));
        Self {
            start,
            increment: increment.filter(|_| random.below(8) > 0),
            min,
            max,
            cycles: random.below(2) == 0,
        }
    }

    fn json(&self) -> Value {
        let mut body = json!({"mode": "strict", "cycle": self.cycles});
        let parts = [
            ("start", self.start),
            ("increment", self.increment),
            ("min", self.min),
            ("max", self.max),
        ];
        for (name, value) in parts {
            if let Some(value) = value {
                body[name] = value.to_string().into();
            }
        }
        body
    }

    fn sql(&self, name: &str) -> String {
        let part = |words: &str, value: Option<i64>| match value {
            Some(value) => format!(" {words} {value}"),
            None => String::new(),
        };
        [
            format!("CREATE SEQUENCE {name}"),
            part("INCREMENT BY", self.increment),
            part("MINVALUE", self.min),
            part("MAXVALUE", self.max),
            part("START WITH", self.start),
            (if self.cycles { " CYCLE" } else { "" }).to_owned(),
        ]
        .concat()
    }
}

/// Compares this number of random definitions, with draws from each sequence.
#[must_use]
pub fn compared(
    cluster: &Cluster,
    postgres: &Postgres,
    random: &mut Random,
    count: usize,
) -> Compared {
    let made = postgres.sql(FUNCTION);
    assert!(made.status.success(), "{made:?}");
    let mut compared = Compared::default();
    while compared.definitions < count {
        let next = TOGETHER.min(count - compared.definitions);
        let first = compared.definitions;
        let definitions = (first..first + next).map(|at| (at, Definition::random(random)));
        let definitions: Vec<_> = definitions.collect();
        let on_cluster: Vec<Result<Draws, String>> = definitions
            .iter()
            .map(|(at, definition)| on_cluster(cluster, *at, definition, random))
            .collect();
        compared.definitions += next;
        compared.chunk(postgres, &definitions, &on_cluster);
    }
    compared
}

/// Creates a sequence on the cluster and draws from it. Returns the code of a refused definition.
fn on_cluster(
    cluster: &Cluster,
    at: usize,
    definition: &Definition,
    random: &mut Random,
) -> Result<Draws, String> {
    let url = cluster.url(0, &format!("/v1/sequences/s{at}"));
    let created = http::request("PUT", &url).json(&definition.json()).reply();
    if created.status != 201 {
        return Err(created.code());
    }
    let several = (0..random.below(8)).map(|_| 1 + random.below(MOST_VALUES));
    let counts: Vec<u64> = several.chain([1; AT_THE_END]).collect();
    let draw = |count| {
        let url = format!("{url}/next?count={count}&expand=1");
        let reply = http::post(&url).reply();
        match (reply.status, reply.code().as_str()) {
            (200, _) => Ok(texts(&reply.json()["values"])),
            (409, "sequence-exhausted") => Err(EXHAUSTED.to_owned()),
            _ => Err(reply.body),
        }
    };
    Ok(counts
        .into_iter()
        .map(|count| (count, draw(count)))
        .collect())
}

fn texts(values: &Value) -> Vec<String> {
    let values = values.as_array().into_iter().flatten();
    values
        .filter_map(|value| value.as_str().map(str::to_owned))
        .collect()
}

/// The number of single draws by which PostgreSQL repeats these draws. A refused draw of several
/// values is not repeated, because single draws would take the values that are left.
fn calls(draws: &Result<Draws, String>) -> usize {
    let calls = |(count, values): &(u64, Result<Vec<String>, String>)| match (count, values) {
        (2.., Err(_)) => 0,
        (count, _) => *count as usize,
    };
    draws.iter().flatten().map(calls).sum()
}

impl Compared {
    /// Creates the same sequences in PostgreSQL, repeats the draws there, and records each
    /// difference.
    fn chunk(
        &mut self,
        postgres: &Postgres,
        definitions: &[(usize, Definition)],
        on_cluster: &[Result<Draws, String>],
    ) {
        let mut commands = Vec::new();
        for ((at, definition), draws) in definitions.iter().zip(on_cluster) {
            commands.push(definition.sql(&format!("s{at}")));
            commands.extend((0..calls(draws)).map(|_| format!("s{at}")));
        }
        let commands = commands.join("','");
        let answers = postgres.sql(&format!(
            "SELECT answer(c) FROM unnest(ARRAY['{commands}']) c"
        ));
        assert!(answers.status.success(), "{answers:?}");
        let answers = String::from_utf8_lossy(&answers.stdout).into_owned();
        let mut answers = answers.lines().map(str::to_owned);
        for ((at, definition), draws) in definitions.iter().zip(on_cluster) {
            let made = answers.next().expect("an answer to each command");
            let expected: Vec<String> = answers.by_ref().take(calls(draws)).collect();
            let difference = match draws {
                Ok(_) if made != "made" => Some(format!("PostgreSQL refuses it: {made}")),
                Ok(draws) => self.draws(draws, expected),
                Err(code) if made == "made" => Some(format!("the cluster refuses it: {code}")),
                Err(_) => {
                    self.refused += 1;
                    None
                }
            };
            let name = definition.sql(&format!("s{at}"));
            self.differences
                .extend(difference.map(|what| format!("{name}: {what}")));
        }
    }

    /// Compares the draws of one sequence. Returns the first difference.
    fn draws(&mut self, draws: &Draws, expected: Vec<String>) -> Option<String> {
        let mut expected = expected.into_iter();
        for (at, (count, values)) in draws.iter().enumerate() {
            let left = || {
                draws[at..]
                    .iter()
                    .flat_map(|(_, values)| values)
                    .flatten()
                    .count()
            };
            let differs = match values {
                Ok(values) => {
                    self.values += values.len();
                    let expected: Vec<String> = expected.by_ref().take(values.len()).collect();
                    (*values != expected || values.len() as u64 != *count)
                        .then(|| format!("{values:?} instead of {expected:?}"))
                }
                Err(why) if why != EXHAUSTED => Some(why.clone()),
                // The values that were left were drawn later, so there must be fewer than
                // requested.
                Err(_) if *count > 1 => (left() as u64 >= *count)
                    .then(|| format!("{count} values were refused and {} left", left())),
                Err(_) => {
                    self.exhausted += 1;
                    let expected = expected.next().unwrap_or_default();
                    (expected != EXHAUSTED_STATE)
                        .then(|| format!("exhausted instead of {expected}"))
                }
            };
            if let Some(differs) = differs {
                return Some(format!("draw {at}: {differs}"));
            }
        }
        None
    }

    /// Prints the figures, and requires that there is no difference and that each case was covered.
    pub fn judge(&self, report: &mut Report) {
        println!(
            "  {} definitions, of which both refused {}; {} equal values, {} refused draws",
            self.definitions, self.refused, self.values, self.exhausted
        );
        report.none("differences from PostgreSQL", &self.differences);
        let is_covered = self.refused > 0 && self.values > 0 && self.exhausted > 0;
        report.require(is_covered, "each case was covered", format!("{self:?}"));
    }
}
