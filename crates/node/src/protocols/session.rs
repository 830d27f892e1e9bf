//! A client's connection in a protocol other than HTTP.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;

use seqd_api::{ErrorCode, Operation, Problem, Typed as _, op};
use seqd_raft::{Part, Pool};
use seqd_state::Share;
use tokio::time::Instant;

use crate::access::Caller;
use crate::admission::{Admission, Admitted, ProtocolRequest, Sender, hold_back, refusal};
use crate::connections::{ClientConnection, REST_WAIT};
use crate::durations::Durations;
use crate::metrics::{ProtocolLabel, ProtocolLabels, ProtocolMetrics};
use crate::services::Services;

/// The bytes of incomplete requests that all connections of a port may hold beyond
/// [`FREE_BYTES`] each.
const INCOMPLETE_BYTES: u64 = 16 << 20;

/// The bytes of an incomplete request that are not charged: most requests are shorter.
const FREE_BYTES: usize = 1024;

/// The longest token that is kept: no token is longer.
const MOST_TOKEN: usize = 512;

/// The refusal of a request whose rest did not arrive in time.
pub(crate) fn incomplete() -> Problem {
    let detail = format!(
        "the rest of the request did not arrive within {} s",
        REST_WAIT.as_secs()
    );
    Problem::new(ErrorCode::InvalidArgument, detail)
}

/// The shared context of a protocol's connections.
pub(crate) struct Protocol {
    name: &'static str,
    services: Arc<Services>,
    admission: Admission,
    metrics: ProtocolMetrics,
    durations: Durations,
    incomplete: Arc<Pool>,
}

impl Protocol {
    pub(crate) fn new(
        name: &'static str,
        services: &Arc<Services>,
        admission: &Admission,
        metrics: &ProtocolMetrics,
    ) -> Arc<Protocol> {
        let share: Share = services.config.limits.tenant_share;
        Arc::new(Protocol {
            name,
            services: Arc::clone(services),
            admission: admission.clone(),
            metrics: metrics.clone(),
            durations: (metrics.durations).get_or_create_owned(&ProtocolLabel { protocol: name }),
            incomplete: Pool::new(share, INCOMPLETE_BYTES),
        })
    }
}

/// A connection, and the token that its client has presented.
pub(crate) struct Session {
    protocol: Arc<Protocol>,
    connection: ClientConnection,
    token: Option<Vec<u8>>,
    incomplete: Option<Part>,
}

impl Session {
    pub(crate) fn new(protocol: &Arc<Protocol>, connection: ClientConnection) -> Session {
        Session {
            protocol: Arc::clone(protocol),
            connection,
            token: None,
            incomplete: None,
        }
    }

    pub(crate) fn services(&self) -> &Services {
        &self.protocol.services
    }

    pub(crate) fn connection(&self) -> &ClientConnection {
        &self.connection
    }

    /// Returns whether the connection ends after the next reply: a reserved place serves one
    /// request, and a stopping node sends its clients to other nodes.
    pub(crate) fn ends_after_reply(&self) -> bool {
        self.connection.is_reserved() || self.protocol.admission.closing.began()
    }

    /// Returns whether requests need a token.
    pub(crate) fn needs_token(&self) -> bool {
        self.protocol.admission.access.admit(None).is_err()
    }

    /// Presents a token for the following requests; `None` presents none. A text that is too long
    /// for a token counts as none. Returns the earlier token.
    pub(crate) fn present(&mut self, token: Option<&[u8]>) -> Option<Vec<u8>> {
        let token = token.filter(|token| token.len() <= MOST_TOKEN && self.needs_token());
        std::mem::replace(&mut self.token, token.map(<[u8]>::to_vec))
    }

    /// The caller by the presented token, outside of a request.
    ///
    /// # Errors
    /// The refusal of a caller without a valid token.
    pub(crate) fn caller(&self) -> Result<Caller, Problem> {
        let access = &self.protocol.admission.access;
        access.identify(self.token.as_deref()).map_err(refusal)
    }

    /// The sender of the next request, which counts towards the rate of its token.
    ///
    /// # Errors
    /// The refusal of a caller without a valid token.
    pub(crate) fn admit(&self) -> Result<Sender, Problem> {
        let access = &self.protocol.admission.access;
        let caller = access.admit(self.token.as_deref()).map_err(refusal)?;
        Ok(Sender::on(self.connection.clone(), caller))
    }

    /// Like [`Session::admit`], but delays the refusal of a caller, as over HTTP.
    ///
    /// # Errors
    /// As for [`Session::admit`].
    pub(crate) async fn let_in(&self) -> Result<Sender, Problem> {
        let admitted = self.admit();
        if let Err(refused) = &admitted {
            self.hold_back(refused).await;
        }
        admitted
    }

    /// Waits before a refusal that the client causes itself.
    pub(crate) async fn hold_back(&self, refused: &Problem) {
        hold_back(&refused.code, false, Some(&self.connection)).await;
    }

    /// A request for an operation. `command` is one of a fixed set. `name` is that of the object,
    /// and empty if there is none.
    pub(crate) fn request<'a>(
        &self,
        command: &'static str,
        operation: &'static Operation,
        name: &'a str,
    ) -> ProtocolRequest<'a> {
        ProtocolRequest {
            operation,
            name,
            logged: (self.protocol.name, command),
        }
    }

    /// Serves a request and counts it.
    ///
    /// # Errors
    /// The refusal, or the error of `work`.
    pub(crate) async fn call<T, E, F>(
        &self,
        request: ProtocolRequest<'_>,
        work: impl FnOnce(Admitted) -> F,
    ) -> Result<T, Problem>
    where
        E: Into<Problem>,
        F: Future<Output = Result<T, E>>,
    {
        let command = request.logged.1;
        let serve = async {
            let sender = self.let_in().await?;
            self.admitted(request, &sender, work).await
        };
        self.counted(command, serve).await
    }

    /// Counts a request that `serve` serves, in one or several steps.
    pub(crate) async fn counted<T>(
        &self,
        command: &'static str,
        serve: impl Future<Output = Result<T, Problem>>,
    ) -> Result<T, Problem> {
        let begun = Instant::now();
        let served = serve.await;
        self.count(command, 1, served.as_ref().err(), begun);
        served
    }

    /// Serves a request that needs only this node. It waits for its turn like all others.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn local<T>(
        &self,
        command: &'static str,
        work: impl FnOnce() -> T,
    ) -> Result<T, Problem> {
        let request = self.request(command, op::GetVersion::ROW, "");
        self.call(request, async |_| Ok::<_, Problem>(work())).await
    }

    /// Serves a request of an admitted sender, without counting it.
    ///
    /// # Errors
    /// As for [`Session::call`].
    pub(crate) async fn admitted<T, E, F>(
        &self,
        request: ProtocolRequest<'_>,
        sender: &Sender,
        work: impl FnOnce(Admitted) -> F,
    ) -> Result<T, Problem>
    where
        E: Into<Problem>,
        F: Future<Output = Result<T, E>>,
    {
        self.protocol.admission.serve(request, sender, work).await
    }

    /// Counts requests with the same result.
    pub(crate) fn count(
        &self,
        command: &'static str,
        requests: u64,
        error: Option<&Problem>,
        begun: Instant,
    ) {
        let protocol = &self.protocol;
        let labels = ProtocolLabels {
            protocol: protocol.name,
            command,
            code: error.map_or(Cow::Borrowed("ok"), |problem| {
                Cow::Owned(problem.code.to_string())
            }),
        };
        let counter = protocol.metrics.requests.get_or_create(&labels);
        counter.inc_by(requests);
        protocol.durations.observe(begun.elapsed());
    }

    /// Counts a script that is not known.
    pub(crate) fn count_unknown_script(&self) {
        self.protocol.metrics.unknown_scripts.inc();
    }

    /// Charges the bytes of an incomplete request to the tenant. A caller without a valid token has
    /// no tenant, and gets no memory beyond [`FREE_BYTES`].
    ///
    /// # Errors
    /// The refusal of such a caller, or `overloaded` if there is no memory.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        self.incomplete = None;
        let beyond = bytes.saturating_sub(FREE_BYTES) as u64;
        if beyond == 0 {
            return Ok(());
        }
        let tenant = self.caller()?.tenant(self.connection.address());
        self.incomplete = self.protocol.incomplete.take(tenant, beyond);
        if self.incomplete.is_none() {
            let detail = "the memory for incomplete requests is used up";
            return Err(Problem::new(ErrorCode::Overloaded, detail));
        }
        Ok(())
    }
}
