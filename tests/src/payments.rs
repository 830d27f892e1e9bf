//! A small payment service, as in docs/IDEMPOTENCY.md: an order is paid by charging a card, and the
//! service may die at every step.
//!
//! The card processor has its own in-memory state and makes every requested charge. As with real
//! processors, each charge has a reference by which it can be looked up. The processor does not
//! detect a second charge with the same reference.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::cluster::{Cluster, READY};
use crate::http::{self, Reply};
use crate::wait;

/// The references of the charges that were made.
#[derive(Debug, Default)]
pub struct Charges(Mutex<Vec<String>>);

impl Charges {
    fn charge(&self, reference: &str) {
        let mut charges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        charges.push(reference.to_owned());
    }

    /// The number of charges with this reference.
    pub fn of(&self, reference: &str) -> usize {
        let charges = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        charges.iter().filter(|it| *it == reference).count()
    }
}

/// The step at which the service dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    BeforeBegin,
    AfterBegin,
    AfterCharge,
    BeforeComplete,
    AfterComplete,
}

impl Step {
    pub const ALL: [Self; 5] = [
        Self::BeforeBegin,
        Self::AfterBegin,
        Self::AfterCharge,
        Self::BeforeComplete,
        Self::AfterComplete,
    ];
}

/// The service died, and its memory is lost.
#[derive(Debug, PartialEq, Eq)]
pub struct Died;

/// One process of the service, which may die at one step.
#[derive(Debug)]
pub struct Service<'a> {
    pub cluster: &'a Cluster,
    pub node: usize,
    pub charges: &'a Charges,
    pub dies: Option<Step>,
}

impl Service<'_> {
    fn at(&self, step: Step) -> Result<(), Died> {
        if self.dies == Some(step) {
            return Err(Died);
        }
        Ok(())
    }

    fn send(&self, path: &str, body: &Value) -> Reply {
        http::post(&self.cluster.url(self.node, path))
            .json(body)
            .reply()
    }

    /// Pays an order exactly once among all callers: begin, charge, complete.
    pub fn pay(&self, order: &str) -> Result<String, Died> {
        self.at(Step::BeforeBegin)?;
        let path = format!("/v1/idempotency/pay%2F{order}");
        let begin = json!({"fingerprint": format!("{order}: 19.90"), "claim_ttl_ms": 1000});
        // In progress: another caller has the claim, or died with it.
        let begun = wait::until("the claim is over", READY, || {
            let reply = self.send(&format!("{path}/begin"), &begin);
            (reply.code() != "in-progress").then(|| reply.ok().json())
        });
        if begun["state"] == "done" {
            return Ok(text(&begun["result"]["payment"]));
        }
        self.at(Step::AfterBegin)?;
        // An attempt above 1 means that an earlier caller ended without a result, so the charge may
        // exist.
        let may_be_charged = begun["attempt"] != 1;
        if !may_be_charged || self.charges.of(order) == 0 {
            self.charges.charge(order);
        }
        self.at(Step::AfterCharge)?;
        let payment = format!("payment of {order}");
        let result = json!({"payment": payment});
        self.at(Step::BeforeComplete)?;
        let complete = json!({"claim": begun["claim"], "result": result});
        self.send(&format!("{path}/complete"), &complete).ok();
        self.at(Step::AfterComplete)?;
        Ok(payment)
    }

    /// Pays after it has consumed a one-time token: at most once.
    pub fn pay_token_first(&self, order: &str, token: &str) -> Result<bool, Died> {
        self.at(Step::BeforeBegin)?;
        if !self.consume(token) {
            return Ok(false);
        }
        self.at(Step::AfterBegin)?;
        self.charges.charge(order);
        self.at(Step::AfterCharge)?;
        Ok(true)
    }

    /// Pays before it consumes the one-time token: at least once.
    pub fn pay_business_first(&self, order: &str, token: &str) -> Result<bool, Died> {
        self.at(Step::BeforeBegin)?;
        self.charges.charge(order);
        self.at(Step::AfterCharge)?;
        Ok(self.consume(token))
    }

    fn consume(&self, token: &str) -> bool {
        let reply = self.send(&format!("/v1/tokens/{token}/consume"), &json!({}));
        if reply.status == 200 {
            return true;
        }
        reply.refused(409, "token-used");
        false
    }
}

/// A new one-time token of a cluster.
pub fn token(cluster: &Cluster) -> String {
    let issued = http::post(&cluster.url(0, "/v1/tokens")).json(&json!({}));
    text(&issued.reply().ok().json()["token"])
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
