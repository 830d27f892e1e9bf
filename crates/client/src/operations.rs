//! A method for each operation of the API, generated from its table. Methods that do more than send
//! a request and read the response are at the end of this file and in `locks` and `download`.

use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue, IF_MATCH};
use reqwest::{Method, StatusCode};
use seqd_api::{self as api, for_each_operation, op, *};
use serde::Serialize;
use serde_json::json;

use crate::client::{Call, Client};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::round::Unusable;

/// The result of a PUT request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// `true` if the sequence is new. Otherwise an equal one existed.
    pub new: bool,
    /// The sequence.
    pub sequence: Sequence,
}

/// Builds the call of an operation from its path parameters and its fields.
pub(crate) fn call_of<O: Typed>(
    parameters: &[&(dyn ToString + Sync)],
    request: &impl Serialize,
) -> Result<Call, Error> {
    let row = O::ROW;
    let mut path = row.path.to_owned();
    for parameter in parameters {
        let name = parameter.to_string();
        if matches!(name.as_str(), "" | "." | "..") {
            return Err(Error::Name(name));
        }
        path = api::paths::fill(&path, &name);
    }
    let fields = serde_json::to_value(request).map_err(Error::setup)?;
    let is_repeatable = match row.repeat {
        Repeat::Harmless => true,
        Repeat::WithNonce => fields["nonce"]
            .as_str()
            .is_some_and(|nonce| !nonce.is_empty()),
        Repeat::Never => false,
    };
    let mut call = Call::change(method_of(row.method), path);
    if is_repeatable {
        call = call.repeatable();
    }
    let wait = fields["wait_ms"].as_u64().filter(|_| row.waits);
    let call = call.waiting(Duration::from_millis(wait.unwrap_or(0)));
    match row.method {
        api::Method::Get | api::Method::Delete => call.query(&fields),
        // The text of a JSON result is kept unchanged.
        api::Method::Post | api::Method::Put | api::Method::Patch => call.body(request),
    }
}

const fn method_of(method: api::Method) -> Method {
    match method {
        api::Method::Get => Method::GET,
        api::Method::Post => Method::POST,
        api::Method::Put => Method::PUT,
        api::Method::Patch => Method::PATCH,
        api::Method::Delete => Method::DELETE,
    }
}

/// The dry runs of a client.
#[derive(Debug, Clone, Copy)]
pub struct DryRun<'a>(&'a Client);

impl DryRun<'_> {
    async fn plan(&self, call: Call) -> Result<Plan, Error> {
        self.0.answer(call.query(&json!({ "dry_run": 1 }))?).await
    }
}

impl Client {
    /// Returns the same changes as dry runs: checked but not applied.
    #[must_use]
    pub fn dry_run(&self) -> DryRun<'_> {
        DryRun(self)
    }
}

macro_rules! methods {
    ($(
        $(#[doc = $about:literal])+
        [$($kind:ident)+] $Op:ident $id:ident($($name:ident: $type:ty),*)
            $method:ident $path:literal, $Request:ty => $Response:ty, $row:expr;
    )+) => {$(
        methods!(
            @ [$($kind)+] [$(#[doc = $about])+] $Op $id($($name: $type),*) $Request => $Response
        );
    )+};
    (@ [custom] $($rest:tt)*) => {};
    (@ [call] $($rest:tt)*) => { methods!(@client call $($rest)*); };
    (@ [plain] $($rest:tt)*) => { methods!(@client plain $($rest)*); };
    (@ [custom dry] $($rest:tt)*) => { methods!(@dry call $($rest)*); };
    (@ [$form:ident dry] $($rest:tt)*) => {
        methods!(@ [$form] $($rest)*);
        methods!(@dry $form $($rest)*);
    };
    (
        @client $form:ident [$($about:tt)+] $Op:ident $id:ident $names:tt
        $Request:ty => $Response:ty
    ) => {
        methods!(@$form [
            $($about)+
            ///
            /// # Errors
            /// The problem that a node returned, or the reason why no response arrived.
        ] $Op $id $names $Request, Client, answer => $Response);
    };
    (
        @dry $form:ident [$($about:tt)+] $Op:ident $id:ident $names:tt
        $Request:ty => $Response:ty
    ) => {
        methods!(@$form [
            #[doc = concat!("The effect of [`Client::", stringify!($id), "`].")]
            ///
            /// # Errors
            /// As for the change itself.
        ] $Op $id $names $Request, DryRun<'_>, plan => Plan);
    };
    (
        @plain [$($about:tt)+] $Op:ident $id:ident($($name:ident: $type:ty),*)
        $Request:ty, $Caller:ty, $send:ident => $Response:ty
    ) => {
        impl $Caller {
            $($about)+
            pub async fn $id(&self $(, $name: $type)*) -> Result<$Response, Error> {
                let call = call_of::<op::$Op>(&[$(&$name),*], &<$Request>::default())?;
                self.$send(call).await
            }
        }
    };
    (
        @call [$($about:tt)+] $Op:ident $id:ident($($name:ident: $type:ty),*)
        $Request:ty, $Caller:ty, $send:ident => $Response:ty
    ) => {
        impl $Caller {
            $($about)+
            pub async fn $id(
                &self,
                $($name: $type,)*
                request: &$Request,
            ) -> Result<$Response, Error> {
                let call = call_of::<op::$Op>(&[$(&$name),*], request)?;
                self.$send(call).await
            }
        }
    };
}

for_each_operation!(methods);

fn update_call(name: &str, change: &SequenceSpec, revision: Option<u64>) -> Result<Call, Error> {
    let call = call_of::<op::PatchSequence>(&[&name], change)?;
    let Some(revision) = revision else {
        return Ok(call);
    };
    let tag = HeaderValue::try_from(format!("\"{revision}\"")).map_err(Error::setup)?;
    Ok(call.header(IF_MATCH, tag))
}

/// Each method fails with an [`Error`]: the problem that a node returned, or the reason why no
/// response arrived.
#[expect(
    clippy::missing_errors_doc,
    reason = "all of them fail in the same way, described above"
)]
impl Client {
    /// Like [`Client::cluster`], but only a member's response is accepted. A node that is not a
    /// member yet lists no members, and counts as unavailable, so that the next endpoint is tried.
    pub async fn cluster_of_member(&self) -> Result<Cluster, Error> {
        let call = call_of::<op::GetCluster>(&[], &NoFields {})?;
        let read = |bytes: &[u8]| {
            let cluster: Cluster = serde_json::from_slice(bytes).map_err(Unusable::unreadable)?;
            if !cluster.members.is_empty() {
                return Ok(cluster);
            }
            let detail = format!("{}; `seqd status` prints the reason", cluster.standing());
            let problem = Problem::new(ErrorCode::NoQuorum, detail);
            Err(Unusable::Elsewhere(Box::new(problem)))
        };
        Ok(self.send_as(call, read).await?.1)
    }

    /// The endpoint that sent the last good response; the first one before any response.
    #[must_use]
    pub fn last_answered(&self) -> &Endpoint {
        self.endpoints().at(self.endpoints().in_turn()[0])
    }

    /// Creates a layout, or returns an equal layout that exists. The first value is `true` if the
    /// layout is new.
    pub async fn create_layout(&self, request: &CreateLayout) -> Result<(bool, Layout), Error> {
        let call = call_of::<op::CreateLayoutOp>(&[], request)?;
        let (status, layout) = self.send(call).await?;
        Ok((status == StatusCode::CREATED, layout))
    }

    /// Creates a sequence, or returns an equal sequence that exists.
    pub async fn create_sequence(&self, name: &str, spec: &SequenceSpec) -> Result<Created, Error> {
        let call = call_of::<op::PutSequence>(&[&name], spec)?;
        let (status, sequence) = self.send(call).await?;
        Ok(Created {
            new: status == StatusCode::CREATED,
            sequence,
        })
    }

    /// Changes the description, the segments or the limit of an existing sequence. With a revision,
    /// only a definition with that revision is changed.
    pub async fn update_sequence(
        &self,
        name: &str,
        change: &SequenceSpec,
        revision: Option<u64>,
    ) -> Result<Sequence, Error> {
        self.answer(update_call(name, change, revision)?).await
    }

    /// Returns the next values of a sequence, at most 1000, once for this key: a request that is
    /// retried after a lost response returns the same values.
    pub async fn next_once(
        &self,
        name: &str,
        request: &NextRequest,
        key: &str,
    ) -> Result<Next, Error> {
        let key = HeaderValue::from_str(key).map_err(Error::setup)?;
        let call = call_of::<op::NextValues>(&[&name], request)?.repeatable();
        let header = HeaderName::from_static(IDEMPOTENCY_KEY_HEADER);
        self.answer(call.header(header, key)).await
    }

    /// Completes an idempotency key with a JSON result, whose text is kept unchanged.
    pub async fn complete_key(
        &self,
        key: &str,
        claim: &str,
        result: &JsonText,
    ) -> Result<KeyEnded, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            claim: &'a str,
            result: &'a JsonText,
        }
        let call = call_of::<op::CompleteKeyOp>(&[&key], &Body { claim, result })?;
        self.answer(call).await
    }

    /// Ends a claim without a result. The next caller that begins the key is the first.
    pub async fn abandon_key(&self, key: &str, claim: &str) -> Result<KeyEnded, Error> {
        let request = AbandonKey {
            claim: Some(claim.to_owned()),
        };
        self.answer(call_of::<op::AbandonKeyOp>(&[&key], &request)?)
            .await
    }

    /// Returns the metrics of the answering node in Prometheus's text format.
    pub async fn metrics(&self) -> Result<String, Error> {
        let call = call_of::<op::GetMetrics>(&[], &NoFields {})?;
        self.answer_text(call.accept("text/plain")).await
    }
}

impl DryRun<'_> {
    /// Returns the effect of [`Client::update_sequence`].
    ///
    /// # Errors
    /// As for the change itself.
    pub async fn update_sequence(
        &self,
        name: &str,
        change: &SequenceSpec,
        revision: Option<u64>,
    ) -> Result<Plan, Error> {
        self.plan(update_call(name, change, revision)?).await
    }
}
