//! Messages between nodes that know each other: sealed, sent, opened, and refused.
//!
//! Invariants:
//! - A message leaves in an envelope that names this start (boot and nonce).
//! - A message is taken only from this cluster, for this node, from a start of its sender that was
//!   introduced and is the latest that was seen, and never from a removed member.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Unheard;
use super::introduction::{introduce, superseded};
use crate::local::{self, Local};
use crate::records;
use crate::wire::messages::{self, Envelope, Sealed};
use crate::wire::transport::{CallError, Link, Rejection, RejectionCode};

impl Local {
    /// The envelope for a message to `to`; `None` before this node has an identity.
    pub(crate) fn envelope(&self, to: u64) -> Option<Envelope> {
        self.with_identity(|identity| Envelope {
            protocol: messages::PROTOCOL,
            cluster_id: identity.cluster_id.clone(),
            from: identity.node,
            to,
            start: self.start,
        })
    }

    /// Checks the envelope of a message that came in.
    pub(crate) fn accept(&self, envelope: &Envelope) -> Result<(), Rejection> {
        let refuse = |code, detail: String| Err(Rejection::new(code, detail));
        if self.is_stopped() {
            return refuse(RejectionCode::NotRunning, "this node is stopping".into());
        }
        let Some(own) = self.envelope(envelope.from) else {
            return refuse(
                RejectionCode::NotRunning,
                "this node has no identity yet".into(),
            );
        };
        if envelope.protocol != messages::PROTOCOL {
            let detail = format!("peers' protocol {} is not known here", envelope.protocol);
            return refuse(RejectionCode::Malformed, detail);
        }
        if envelope.cluster_id != own.cluster_id {
            let ancestor = |own: &crate::storage::folder::Identity| {
                own.ancestors.contains(&envelope.cluster_id)
            };
            if self.with_identity(ancestor) == Some(true) {
                return refuse(RejectionCode::Superseded, own.cluster_id);
            }
            let detail = format!("this node is of cluster {}", own.cluster_id);
            return refuse(RejectionCode::WrongCluster, detail);
        }
        if envelope.to != own.from {
            let detail = format!("this is node {}, not {}", own.from, envelope.to);
            return refuse(RejectionCode::WrongTarget, detail);
        }
        if self
            .replica
            .get()
            .is_some_and(|replica| replica.is_removed(envelope.from))
        {
            let detail = format!("node {} was removed from the cluster", envelope.from);
            return refuse(RejectionCode::Removed, detail);
        }
        match self.peers.hear(envelope.from, envelope.start) {
            Ok(()) => Ok(()),
            Err(Unheard::Stale(stale)) => refuse(RejectionCode::StaleBoot, stale.to_string()),
            Err(Unheard::Unintroduced) => {
                refuse(RejectionCode::Unintroduced, "say hello first".to_owned())
            }
        }
    }

    /// Sends a message to a node and reads its answer; both envelopes are checked.
    pub(crate) async fn call<M, R>(
        &self,
        link: Link,
        to: (u64, &str),
        path: &str,
        message: M,
        timeout: Duration,
    ) -> Result<R, CallError>
    where
        M: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        let sealed = self.call_sealed(link, to, path, message, timeout).await?;
        Ok(sealed.message)
    }

    /// As `call`, with the envelope of the answer. A peer that does not know this start is told who
    /// this is, and then the message once more.
    pub(crate) async fn call_sealed<M, R>(
        &self,
        link: Link,
        (to, addr): (u64, &str),
        path: &str,
        message: M,
        timeout: Duration,
    ) -> Result<Sealed<R>, CallError>
    where
        M: Serialize + DeserializeOwned,
        R: Serialize + DeserializeOwned,
    {
        let Some(envelope) = self.envelope(to) else {
            return Err(CallError::Unsent(
                "this node has no identity yet".to_owned(),
            ));
        };
        let body = records::encode(&Sealed { envelope, message })
            .map_err(|e| CallError::Unsent(e.to_string()))?;
        let body = bytes::Bytes::from(body);
        let post = || self.transport.post(link, addr, path, body.clone(), timeout);
        match self.open((to, addr), post().await).await {
            Err(CallError::Rejected(refused))
                if refused.code == RejectionCode::Unintroduced
                    && introduce(self, to, addr).await =>
            {
                self.open((to, addr), post().await).await
            }
            answer => answer,
        }
    }

    /// Opens an answer, and draws the consequences of a rejection.
    pub(crate) async fn open<R: Serialize + DeserializeOwned>(
        &self,
        (to, addr): (u64, &str),
        answer: Result<bytes::Bytes, CallError>,
    ) -> Result<Sealed<R>, CallError> {
        let bytes = match answer {
            Ok(bytes) => bytes,
            Err(error) => {
                match &error {
                    CallError::Refused => self.found_closed(to),
                    CallError::Rejected(rejection) => self.consider(rejection),
                    CallError::Unsent(_) | CallError::Broken(_) => {}
                }
                return Err(error);
            }
        };
        let sealed: Sealed<R> =
            records::decode(&bytes).map_err(|e| CallError::Broken(e.to_string()))?;
        if sealed.envelope.from != to {
            let detail = format!("node {} answered for {to}", sealed.envelope.from);
            return Err(CallError::Broken(detail));
        }
        // The peer did take the message: a reply that is not taken here leaves it open what came
        // of that.
        let mut accepted = self.accept(&sealed.envelope);
        if accepted
            .as_ref()
            .is_err_and(|refused| refused.code == RejectionCode::Unintroduced)
            && introduce(self, to, addr).await
        {
            accepted = self.accept(&sealed.envelope);
        }
        accepted.map_err(|e| CallError::Broken(e.to_string()))?;
        self.heard(to, None);
        Ok(sealed)
    }

    /// A rejection that says that this node is over ends it.
    fn consider(&self, rejection: &Rejection) {
        let name = &self.settings.name;
        match rejection.code {
            RejectionCode::Removed => self.stop(local::removed(name)),
            RejectionCode::StaleBoot => self.stop(local::stale(name, &rejection.detail)),
            RejectionCode::Superseded => self.stop(superseded(&rejection.detail)),
            _ => {}
        }
    }
}
