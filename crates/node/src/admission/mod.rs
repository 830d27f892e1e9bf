//! The checks that every request passes, in every protocol: its token and its scope, the reserve of
//! connections, the lanes of clients, and the audit log.
//!
//! A protocol presents the token of a request to [`Access`](crate::access::Access) and then has
//! [`Admission::serve`] execute the request. HTTP uses the parts one by one, because it reads the
//! body of a request between two of them.

mod audit;
mod closing;
mod gate;
mod hold_back;
pub(crate) mod lanes;
mod meter;
mod refusals;
mod sender;
mod serving;

pub(crate) use audit::{Audit, declared};
pub(crate) use closing::Closing;
pub(crate) use gate::{Admission, Admitted, ProtocolRequest, is_audited, while_let_in};
pub(crate) use hold_back::hold_back;
pub(crate) use meter::Meter;
pub(crate) use refusals::{check, confirm, has_place, recheck, refusal, without_names};
pub(crate) use sender::Sender;
pub(crate) use serving::Serving;
