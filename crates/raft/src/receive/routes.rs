//! Maps a call's route to its handler.

use std::sync::Arc;
use std::time::Duration;

use seqd_peers::wire::incoming::{Body, Collected, Handler, Replying};
use seqd_peers::wire::route::Route;
use seqd_peers::wire::transport::Rejection;

use super::service::{Service, malformed, opened};
use super::{cluster, consensus, snapshot};

/// The largest message without an envelope, bytes: 64 peers or members with their addresses. It is
/// less than the number of bytes that are read from an unknown sender.
const OPEN_BYTES: usize = 48 << 10;

/// Time limit for the arrival of such a message, because its sender is not known.
const OPEN_LIMIT: Duration = Duration::from_secs(3);

async fn open(body: Body) -> Result<Collected, Rejection> {
    let collected = tokio::time::timeout(OPEN_LIMIT, body.collect(OPEN_BYTES)).await;
    collected.map_err(|_| malformed("the message takes too long"))?
}

impl Handler for Service {
    fn handle(self: Arc<Self>, route: Route, body: Body) -> Replying {
        Box::pin(async move {
            let service = &*self;
            match route {
                Route::Append => consensus::append(service, opened(service, body).await?).await,
                Route::Vote => consensus::vote(service, opened(service, body).await?).await,
                Route::PreVote => consensus::pre_vote(service, opened(service, body).await?).await,
                Route::Transfer => consensus::transfer(service, opened(service, body).await?).await,
                Route::Snapshot => snapshot::receive(service, body).await,
                Route::SnapshotRest => snapshot::receive_rest(service, body).await,
                Route::SnapshotKept => snapshot::kept(service, opened(service, body).await?).await,
                Route::Forward => cluster::forward(service, opened(service, body).await?).await,
                Route::Draw => cluster::draw(service, opened(service, body).await?).await,
                Route::Promise => cluster::promise(service, opened(service, body).await?).await,
                Route::ReadIndex => {
                    cluster::read_index(service, opened(service, body).await?).await
                }
                Route::Members => {
                    cluster::change_members(service, opened(service, body).await?).await
                }
                Route::Ping => cluster::ping(service, opened(service, body).await?).await,
                Route::Stopping => cluster::stopping(service, opened(service, body).await?).await,
                Route::Facts => cluster::facts(service, opened(service, body).await?).await,
                Route::Watch => cluster::watch(service, opened(service, body).await?).await,
                Route::Hello => {
                    let sender = body.sender();
                    cluster::hello(service, &sender, &open(body).await?.bytes).await
                }
                Route::Prepare => cluster::prepare(service, &open(body).await?.bytes).await,
                Route::Start => cluster::start(service, &open(body).await?.bytes),
                Route::Adopt => cluster::adopt(service, &open(body).await?.bytes).await,
            }
        })
    }
}
