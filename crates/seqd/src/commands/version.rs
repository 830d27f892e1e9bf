//! `seqd version`: the version of this binary.

use seqd_client::api::{Version, exit};

use crate::failure::Failure;
use crate::format::Format;
use crate::output::Report;

pub(crate) fn run(format: Format) -> Result<u8, Failure> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        revision: seqd_node::REVISION.map(str::to_owned),
    };
    let revision = version.revision.clone().unwrap_or_default();
    let people = format!("seqd {} {revision}", version.version);
    let mut report = Report::new(&version)?
        .with_columns("version revision")
        .with_people(format!("{}\n", people.trim_end()));
    report.row(vec![version.version, revision]);
    report.print(format)?;
    Ok(exit::OK)
}
