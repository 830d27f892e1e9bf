//! Counters: sequences under their own name.

use std::collections::HashMap;

use bytes::Bytes;
use futures_util::future::join_all;
use seqd_api::{ErrorCode, Next, NextRequest, Problem, Sequence, SequenceSpec, Typed as _, op};
use seqd_state::SequenceName;
use tokio::time::Instant;

use super::connection::Client;
use super::errors::{not_an_integer, wrong_arguments};
use super::reply::Reply;
use super::request::{number, text};
use crate::admission::{Admitted, Sender};
use crate::services::{RequestError, SequenceError, ServiceError, sequence_name};

const IDS: &str = "seqd.id";

impl Client {
    /// Executes several requests `INCR NAME`. Requests with the same name take their values
    /// together.
    pub(super) async fn increment_all(&self, requests: &[Vec<Bytes>]) -> Vec<Reply> {
        let mut places: HashMap<&Bytes, Vec<usize>> = HashMap::new();
        for (at, request) in requests.iter().enumerate() {
            places.entry(&request[1]).or_default().push(at);
        }
        let each = places.into_iter().map(async |(name, places)| {
            let replies = self.increment(name, places.len()).await;
            (places, replies)
        });
        let mut replies = vec![Reply::Null; requests.len()];
        for (places, own) in join_all(each).await {
            for (at, reply) in places.into_iter().zip(own) {
                replies[at] = reply;
            }
        }
        replies
    }

    /// The replies to `count` requests `INCR NAME`, at least one.
    pub(super) async fn increment(&self, name: &Bytes, count: usize) -> Vec<Reply> {
        let begun = Instant::now();
        let name = text(name);
        let (sender, admitted, refused) = self.admit(count);
        let mut replies = Vec::with_capacity(count);
        if let Some(sender) = &sender {
            let drawn = self.drawn(&name, admitted as u64, sender).await;
            match drawn {
                Err(problem) if admitted > 1 && problem.is(ErrorCode::SequenceExhausted) => {
                    for _ in 0..admitted {
                        let one = self.drawn(&name, 1, sender).await;
                        replies.extend(self.values(one, 1, begun));
                    }
                }
                drawn => replies.extend(self.values(drawn, admitted, begun)),
            }
        }
        self.refuse("incr", count, refused, begun, &mut replies)
            .await;
        replies
    }

    /// The replies to `count` requests `SEQD.ID`, at least one.
    pub(super) async fn single_ids(&self, count: usize) -> Vec<Reply> {
        let begun = Instant::now();
        let (sender, admitted, refused) = self.admit(count);
        let most = self.session.services().config.http.max_count as usize;
        let mut replies = Vec::with_capacity(count);
        while let Some(sender) = &sender
            && replies.len() < admitted
        {
            let next = most.min(admitted - replies.len());
            let work = |admitted| self.mint(None, Some(next as u64), admitted);
            let request = self.session.request(IDS, op::GetIds::ROW, "");
            let minted = self.session.admitted(request, sender, work).await;
            let error = minted.as_ref().err();
            self.session.count(IDS, next as u64, error, begun);
            match minted {
                Ok(ids) => replies.extend(ids),
                Err(problem) => replies.extend(vec![self.failed(&problem); next]),
            }
        }
        self.refuse(IDS, count, refused, begun, &mut replies).await;
        replies
    }

    async fn drawn(&self, name: &str, count: u64, sender: &Sender) -> Result<Next, Problem> {
        let request = self.session.request("incr", op::NextValues::ROW, name);
        let work = |admitted| self.draw(name, (count, false), admitted);
        self.session.admitted(request, sender, work).await
    }

    fn values(&self, drawn: Result<Next, Problem>, count: usize, begun: Instant) -> Vec<Reply> {
        let error = drawn.as_ref().err();
        self.session.count("incr", count as u64, error, begun);
        match drawn {
            Ok(next) => next.each().map(Reply::Integer).collect(),
            Err(problem) => vec![self.failed(&problem); count],
        }
    }

    /// `INCRBY NAME COUNT`: takes COUNT contiguous values and returns the last one.
    pub(super) async fn increment_by(&self, arguments: &[Bytes]) -> Reply {
        let Some(count) = number(&arguments[1]) else {
            return not_an_integer();
        };
        let name = text(&arguments[0]);
        let taken = self.take("incrby", &name, (count, true)).await;
        let last = |next: Next| next.ranges.last().map(|range| range.last);
        match taken {
            Ok(next) => last(next).map_or(Reply::Null, Reply::Integer),
            Err(problem) => self.failed(&problem),
        }
    }

    /// `SEQD.NEXT NAME COUNT`: takes COUNT values and returns their ranges.
    pub(super) async fn next_ranges(&self, arguments: &[Bytes]) -> Reply {
        let Some(count) = number(&arguments[1]) else {
            return not_an_integer();
        };
        let name = text(&arguments[0]);
        match self.take("seqd.next", &name, (count, false)).await {
            Ok(next) => {
                let ranges = next.ranges.iter();
                let ranges = ranges.map(|range| [range.first, range.last].map(Reply::Integer));
                Reply::Array(ranges.map(|range| Reply::Array(range.into())).collect())
            }
            Err(problem) => self.failed(&problem),
        }
    }

    async fn take(
        &self,
        command: &'static str,
        name: &str,
        (count, contiguous): (i64, bool),
    ) -> Result<Next, Problem> {
        let request = self.session.request(command, op::NextValues::ROW, name);
        let work = async |admitted| {
            let count = u64::try_from(count).ok().filter(|count| *count > 0);
            let Some(count) = count else {
                let limit = NextRequest::MAX_COUNT;
                let detail = format!("a counter moves forward, by 1 to {limit}");
                return Err(RequestError::Invalid(detail).into());
            };
            self.draw(name, (count, contiguous), admitted).await
        };
        self.session.call(request, work).await
    }

    /// Takes values. Creates the sequence if it does not exist and `redis.create` permits it.
    async fn draw(
        &self,
        name: &str,
        (count, contiguous): (u64, bool),
        admitted: Admitted,
    ) -> Result<Next, ServiceError> {
        let sequences = &self.session.services().sequences;
        let sequence = sequence_name(name)?;
        let request = NextRequest {
            count: Some(count),
            contiguous: Some(contiguous),
            expand: None,
        };
        let next = || sequences.next(&sequence, &request, false, admitted.deadline);
        match next().await {
            Err(ServiceError::Sequence(SequenceError::NotFound { .. }))
                if self.session.services().config.redis.create.is_some() =>
            {
                self.create(&sequence, None, &admitted).await?;
                next().await
            }
            drawn => drawn,
        }
    }

    /// Creates a sequence for a counter, with the default first value or with `start`. A deleted
    /// sequence keeps its definition and continues at its high-water mark. Returns `None` if the
    /// sequence exists.
    pub(super) async fn create(
        &self,
        name: &SequenceName,
        start: Option<i64>,
        admitted: &Admitted,
    ) -> Result<Option<Sequence>, ServiceError> {
        let services = self.session.services();
        let (tenant, deadline) = (admitted.tenant, admitted.deadline);
        let holder = services.locks.holder(name.as_str(), tenant, deadline);
        if holder.await?.is_some() {
            let detail = format!("{name} is a lock, whose value is not an integer");
            return Err(RequestError::Invalid(detail).into());
        }
        let spec = SequenceSpec {
            mode: services.config.redis.create,
            start,
            ..SequenceSpec::default()
        };
        let by = (tenant, deadline);
        let created = services.sequences.create_or_revive(name, (spec, None), by);
        match created.await {
            // Another client was first.
            Err(error) if error.code() == ErrorCode::AlreadyExists => Ok(None),
            created => Ok(Some(created?)
                .filter(|created| created.is_new)
                .map(|created| created.sequence)),
        }
    }

    /// `SEQD.ID [COUNT] [LAYOUT]`: an ID, or an array if there is a count.
    pub(super) async fn ids(&self, arguments: &[Bytes]) -> Reply {
        let (count, layout) = match arguments {
            [] => (None, None),
            [count] => (Some(count), None),
            [count, layout] => (Some(count), Some(text(layout))),
            _ => return wrong_arguments(IDS),
        };
        let count = match count.map(|count| number(count).and_then(|it| u64::try_from(it).ok())) {
            Some(None) => return not_an_integer(),
            count => count.flatten(),
        };
        let work = |admitted| self.mint(layout.as_deref(), count, admitted);
        let request = self.session.request(IDS, op::GetIds::ROW, "");
        match self.session.call(request, work).await {
            Ok(mut ids) if count.is_none() => ids.pop().unwrap_or(Reply::Null),
            Ok(ids) => Reply::Array(ids),
            Err(problem) => self.failed(&problem),
        }
    }

    async fn mint(
        &self,
        layout: Option<&str>,
        count: Option<u64>,
        admitted: Admitted,
    ) -> Result<Vec<Reply>, ServiceError> {
        let ids = &self.session.services().ids;
        let minter = ids.minter(layout)?;
        let minted = ids.many(&minter, count, admitted.deadline).await?;
        Ok(minted.ids().map(Reply::bulk).collect())
    }
}
