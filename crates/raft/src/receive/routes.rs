//! From a message's path to its handler.

use std::sync::Arc;

use super::{Service, cluster, consensus, snapshot};
use crate::wire::paths;
use crate::wire::transport::{self, Chunks, Handler, Rejection, RejectionCode, Replying};

impl Handler for Service {
    fn handle(self: Arc<Self>, path: String, chunks: Chunks) -> Replying {
        Box::pin(async move {
            if path == paths::SNAPSHOT {
                return snapshot::receive(&self, chunks).await;
            }
            let body = transport::collect(chunks).await?;
            let body = &body[..];
            match path.as_str() {
                paths::APPEND => consensus::append(&self, body).await,
                paths::VOTE => consensus::vote(&self, body).await,
                paths::PRE_VOTE => consensus::pre_vote(&self, body).await,
                paths::TRANSFER => consensus::transfer(&self, body).await,
                paths::FORWARD => cluster::forward(&self, body).await,
                paths::READ_INDEX => cluster::read_index(&self, body).await,
                paths::MEMBERS => cluster::change_members(&self, body).await,
                paths::PING => cluster::ping(&self, body).await,
                paths::WATCH => cluster::watch(&self, body).await,
                paths::HELLO => cluster::hello(&self, body).await,
                paths::PREPARE => cluster::prepare(&self, body).await,
                paths::ADOPT => cluster::adopt(&self, body).await,
                _ => {
                    let detail = format!("this program has no handler for {path}");
                    Err(Rejection::new(RejectionCode::NewerFormat, detail))
                }
            }
        })
    }
}
