//! Runs a script against its cluster, and reports each section whose responses differ.
//!
//! Each response of a node must also have the forms of `vocabulary`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use seqd_tests::callers::{OPERATOR, require_tokens};
use seqd_tests::cluster::Cluster;
use seqd_tests::{binary, http, wait};

use crate::answer::Answer;
use crate::documented;
use crate::effects::all_that_counts;
use crate::pattern::{Names, ensure};
use crate::script::{Kind, Script, Step, words_of};
use crate::vocabulary;

/// The time limit of `until`, and until all members name one leader. A node applies the entries of
/// its leader within milliseconds, and on a busy machine within this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The options for both runs of a command with a dry run.
const DRY_OPTIONS: [&str; 3] = ["--yes", "--timeout", "20s"];

/// The expected line that a response does not match, and the reason.
type Judged = Result<(), (usize, String)>;

/// Panics with every section that differs: file, line, expected and actual response.
pub(crate) fn run(file: &str, text: &str) {
    let script = Script::parse(text);
    let (cluster, mut names) = begin(&script);
    let mut wrong = Vec::new();
    for section in &script.sections {
        let mut runner = Runner {
            cluster: &cluster,
            names: names.clone(),
        };
        let failed = section
            .steps
            .iter()
            .find_map(|step| runner.step(step).err());
        let title = &section.title;
        wrong.extend(failed.map(|(line, why)| format!("{file}:{line}: {title}\n{why}")));
        if title.is_empty() {
            names = runner.names;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

fn begin(script: &Script) -> (Cluster, Names) {
    let mut cluster = Cluster::planned(script.nodes);
    if script.needs_tokens {
        require_tokens(&mut cluster);
    }
    let mut cluster = cluster.ready();
    let mut names = Names::default();
    names.bind("operator", OPERATOR);
    if let Some(name) = &script.stranger {
        let index = cluster.add_stranger(name);
        cluster.node_mut(index).start();
        names.bind("stranger", &cluster.node(index).peer_address());
        names.bind("leader", cluster.node(cluster.leader()).name());
        names.bind("follower", cluster.node(cluster.follower()).name());
    }
    (cluster, names)
}

struct Runner<'a> {
    cluster: &'a Cluster,
    names: Names,
}

impl Runner<'_> {
    fn step(&mut self, step: &Step) -> Judged {
        let deadline = if step.is_repeated {
            PATIENCE
        } else {
            Duration::ZERO
        };
        let mut judged = Ok(());
        // A response that does not match binds nothing.
        let bound = self.names.clone();
        wait::within(deadline, || {
            self.names = bound.clone();
            judged = self.once(step);
            judged.is_ok().then_some(())
        });
        judged
    }

    fn once(&mut self, step: &Step) -> Judged {
        let answer = match step.kind {
            Kind::Check => {
                return self.names.holds(&step.text).map_err(|why| (step.line, why));
            }
            Kind::DryRun => return self.dry_run(step),
            Kind::Command => self.command(step, &[]),
            Kind::Request => self.request(step)?,
        };
        self.judge(step, &answer)
    }

    fn request(&self, step: &Step) -> Result<Answer, (usize, String)> {
        let text = self.names.fill(&step.text);
        let (method, rest) = text.split_once(' ').expect("a method and a path");
        let (path, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let mut request = http::request(method, &self.cluster.url(step.node, path));
        for header in &step.headers {
            let header = self.names.fill(header);
            let (name, value) = header.split_once(": ").expect("a header");
            request = request.header(name, value);
        }
        if let Some(name) = &step.caller {
            let shown = format!("Bearer {}", self.names.get(name));
            request = request.header("authorization", &shown);
        }
        if !body.is_empty() {
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
        let reply = request
            .send()
            .map_err(|failure| (step.line, format!("{failure:?}")))?;
        let (code, headers, text) = (i32::from(reply.status), reply.headers, reply.body);
        Ok(Answer {
            code,
            headers,
            text,
            stderr: None,
        })
    }

    fn command(&self, step: &Step, more: &[&str]) -> Answer {
        let words = words_of(&self.names.fill(&step.text));
        let mut command = binary::command(&[]);
        let mut endpoints = self.cluster.urls();
        endpoints.rotate_left(step.node);
        command
            .args(words.iter().skip(1))
            .args(more)
            .env("SEQD_ENDPOINTS", endpoints.join(","))
            .current_dir(self.cluster.folder());
        if let Some(name) = &step.caller {
            let file = self.cluster.folder().join(format!("token-of-{name}"));
            std::fs::write(&file, self.names.get(name)).expect("a file");
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
            command.env("SEQD_TOKEN_FILE", file);
        }
        let output = command.output().expect("seqd runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("a text");
        Answer {
            code: output.status.code().unwrap_or(-1),
            headers: Vec::new(),
            text: text(output.stdout),
            stderr: Some(text(output.stderr)),
        }
    }

    /// A dry run changes nothing, and has the same verdict as the command that runs after it.
    fn dry_run(&self, step: &Step) -> Judged {
        let (line, expected) = step.expected.first().expect("an exit code and words");
        let expected = self.names.fill(expected);
        let (code, words) = expected.split_once(' ').expect("an exit code and words");
        let form: &[&str] = if code == "0" { &["-o", "json"] } else { &[] };
        let before = all_that_counts(self.cluster);
        let dry = self.command(step, &[&DRY_OPTIONS[..], form, &["--dry-run"]].concat());
        let after_dry = all_that_counts(self.cluster);
        let is_unchanged = after_dry == before;
        let real = self.command(step, &[&DRY_OPTIONS[..], form].concat());
        let after = all_that_counts(self.cluster);
        let has_effect = after != after_dry;
        let is_right = if code == "0" {
            let plan = dry.json();
            let effect = plan["effect"].as_str().unwrap_or_default();
            plan["dry_run"] == true && effect.contains(words) && has_effect == (words != "nothing")
        } else {
            dry.stderr == real.stderr && !has_effect
        };
        let is_equal = dry.code.to_string() == code && real.code == dry.code;
        ensure(is_unchanged && is_right && is_equal, || {
            let (dry, real) = (dry.shown(), real.shown());
            let effects =
                format!("before: {before}\nafter the dry run: {after_dry}\nafter: {after}");
            let asked = &step.text;
            format!("{asked}\nexpected: {expected}\ndry run: {dry}\nactual: {real}\n{effects}")
        })
        .map_err(|why| (*line, why))
    }

    fn judge(&mut self, step: &Step, answer: &Answer) -> Judged {
        let mut names = self.names.clone();
        for (at, (line, expected)) in step.expected.iter().enumerate() {
            let expected = names.fill(expected);
            let fits = match at {
                0 => answer.fits(&expected, &mut names),
                _ => answer.also_fits(&expected, &mut names),
            };
            fits.map_err(|why| {
                let (asked, actual) = (&step.text, answer.shown());
                (
                    *line,
                    format!("{asked}\nexpected: {expected}\nactual: {actual}\n{why}"),
                )
            })?;
        }
        if answer.stderr.is_none() {
            let body = answer.json();
            vocabulary::check(&body).map_err(|why| (step.line, why))?;
            let asked = self.names.fill(&step.text);
            let mut words = asked.split(' ');
            let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            if let Some(code) = body["code"].as_str() {
                documented::check(method, target, code).map_err(|why| (step.line, why))?;
            }
        }
        self.names = names;
        Ok(())
    }
}
