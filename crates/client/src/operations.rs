//! Every operation of the surface, one method each.

use reqwest::{Method, StatusCode};
use seqd_api::{
    AddMember, AdvanceRequest, Advanced, Cluster, Deleted, Id, IdParts, IdPartsQuery, IdQuery, Ids,
    LeaderMove, LeaderMoved, ListQuery, MemberChange, Next, NextRequest, NoFields, Page, Ready,
    Sequence, SequenceSpec, Uuid, UuidQuery, Uuids, Version, Worker, WorkersQuery, paths,
};

use crate::client::Call;
use crate::{Client, Error};

/// Whether a PUT made something or found it made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Whether it is new; otherwise an equal one was there.
    pub new: bool,
    /// What is there.
    pub sequence: Sequence,
}

/// Each method fails as [`Error`] says: what was answered, or why no answer came.
#[expect(
    clippy::missing_errors_doc,
    reason = "all of them fail in the same way, said above"
)]
impl Client {
    /// One ID, minted by the node that answers.
    pub async fn id(&self, query: &IdQuery) -> Result<Id, Error> {
        Ok(self.send(Call::get(paths::ID).query(query)?).await?.1)
    }

    /// Many IDs, strictly increasing, minted by the node that answers.
    pub async fn ids(&self, query: &IdQuery) -> Result<Ids, Error> {
        Ok(self.send(Call::get(paths::IDS).query(query)?).await?.1)
    }

    /// What an ID is made of and who held its worker.
    pub async fn id_parts(&self, id: &str, query: &IdPartsQuery) -> Result<IdParts, Error> {
        Ok(self
            .send(Call::get(paths::fill(paths::ID_PARTS, id)).query(query)?)
            .await?
            .1)
    }

    /// One UUID.
    pub async fn uuid(&self, query: &UuidQuery) -> Result<Uuid, Error> {
        Ok(self.send(Call::get(paths::UUID).query(query)?).await?.1)
    }

    /// Many UUIDs.
    pub async fn uuids(&self, query: &UuidQuery) -> Result<Uuids, Error> {
        Ok(self.send(Call::get(paths::UUIDS).query(query)?).await?.1)
    }

    /// One page of the sequences.
    pub async fn sequences(&self, query: &ListQuery) -> Result<Page<Sequence>, Error> {
        Ok(self
            .send(Call::get(paths::SEQUENCES).query(query)?)
            .await?
            .1)
    }

    /// One sequence, linearizable.
    pub async fn sequence(&self, name: &str) -> Result<Sequence, Error> {
        Ok(self
            .send(Call::get(paths::fill(paths::SEQUENCE, name)))
            .await?
            .1)
    }

    /// Makes a sequence; harmless where an equal one is there.
    pub async fn create_sequence(&self, name: &str, spec: &SequenceSpec) -> Result<Created, Error> {
        let path = paths::fill(paths::SEQUENCE, name);
        let (status, sequence) = self
            .send(Call::change(Method::PUT, path).body(spec)?)
            .await?;
        Ok(Created {
            new: status == StatusCode::CREATED,
            sequence,
        })
    }

    /// Deletes a sequence; its definition and mark are kept.
    pub async fn delete_sequence(&self, name: &str) -> Result<Deleted, Error> {
        let path = paths::fill(paths::SEQUENCE, name);
        Ok(self.send(Call::change(Method::DELETE, path)).await?.1)
    }

    /// The next values of a sequence.
    pub async fn next(&self, name: &str, request: &NextRequest) -> Result<Next, Error> {
        let path = paths::fill(paths::SEQUENCE_NEXT, name);
        Ok(self
            .send(Call::change(Method::POST, path).body(request)?)
            .await?
            .1)
    }

    /// Moves a sequence forward.
    pub async fn advance(&self, name: &str, request: &AdvanceRequest) -> Result<Advanced, Error> {
        let path = paths::fill(paths::SEQUENCE_ADVANCE, name);
        Ok(self
            .send(Call::change(Method::POST, path).body(request)?)
            .await?
            .1)
    }

    /// One page of the worker leases.
    pub async fn workers(&self, query: &WorkersQuery) -> Result<Page<Worker>, Error> {
        Ok(self.send(Call::get(paths::WORKERS).query(query)?).await?.1)
    }

    /// The cluster as the node that answers sees it.
    pub async fn cluster(&self) -> Result<Cluster, Error> {
        Ok(self.send(Call::get(paths::CLUSTER)).await?.1)
    }

    /// Adds a node as a learner.
    pub async fn add_member(&self, request: &AddMember) -> Result<MemberChange, Error> {
        Ok(self
            .send(Call::change(Method::POST, paths::MEMBERS).body(request)?)
            .await?
            .1)
    }

    /// Makes a learner a voter.
    pub async fn promote_member(&self, name: &str) -> Result<MemberChange, Error> {
        let path = paths::fill(paths::MEMBER_PROMOTE, name);
        Ok(self
            .send(Call::change(Method::POST, path).body(&NoFields {})?)
            .await?
            .1)
    }

    /// Removes a member for good.
    pub async fn remove_member(&self, name: &str) -> Result<MemberChange, Error> {
        let path = paths::fill(paths::MEMBER, name);
        Ok(self.send(Call::change(Method::DELETE, path)).await?.1)
    }

    /// Moves the leadership.
    pub async fn move_leader(&self, request: &LeaderMove) -> Result<LeaderMoved, Error> {
        Ok(self
            .send(Call::change(Method::POST, paths::LEADER).body(request)?)
            .await?
            .1)
    }

    /// Whether the node that answers can serve everything.
    pub async fn ready(&self) -> Result<Ready, Error> {
        Ok(self.send(Call::get(paths::READYZ)).await?.1)
    }

    /// The version of the node that answers.
    pub async fn version(&self) -> Result<Version, Error> {
        Ok(self.send(Call::get(paths::VERSION)).await?.1)
    }
}
