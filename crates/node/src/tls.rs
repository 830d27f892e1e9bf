//! This node's certificates: loads them at the start, reloads them while the node runs, and warns
//! before they expire.

use std::sync::Arc;
use std::time::Duration;

use seqd_api::{ErrorCode, Problem, TLS_REQUIRED};
use seqd_idgen::WallClock;
use seqd_net::tls::{
    Files, Look, Material, PeerTls, Rotating, ServerTls, TlsError, Validity, client_port,
};
use seqd_net::{Listen, SecurePort};
use seqd_raft::{Transport, answer_without_tls, peer_transport, secure_peer_transport};
use tokio::runtime::Handle;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Config, ConfigError};

/// The interval at which the files are read again, so that a renewed certificate takes effect soon.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Checks per day. Warnings about a certificate that expires soon are logged once a day.
const LOOKS_A_DAY: u64 = 24 * 3600 / LOOK_EVERY.as_secs();

/// The certificates in force; `None` where TLS is not configured.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    clients: Option<Arc<Rotating<ServerTls>>>,
    peers: Option<Arc<Rotating<PeerTls>>>,
}

impl Tls {
    /// Reads and checks the files that `config` names.
    ///
    /// # Errors
    /// A file cannot be read or used.
    pub fn load(config: &Config, clock: &dyn WallClock) -> Result<Tls, ConfigError> {
        let tls = &config.tls;
        let now = seconds(clock);
        let mut loaded = Tls::default();
        if let (Some(cert), Some(key)) = (tls.cert.clone(), tls.key.clone()) {
            let ca = tls.client_ca.clone();
            let clients = Rotating::load(Files { cert, key, ca }, now, client_port);
            let keys = "tls.cert, tls.key, tls.client_ca";
            loaded.clients = Some(Arc::new(clients.map_err(|error| refused(keys, &error))?));
        }
        if let (Some(cert), Some(key)) = (tls.peer_cert.clone(), tls.peer_key.clone()) {
            let (ca, name) = (tls.peer_ca.clone(), config.node.name.clone());
            let build = move |material: &Material| PeerTls::new(material, &name);
            let peers = Rotating::load(Files { cert, key, ca }, now, build);
            let keys = "tls.peer_cert, tls.peer_key, tls.peer_ca";
            loaded.peers = Some(Arc::new(peers.map_err(|error| refused(keys, &error))?));
        }
        Ok(loaded)
    }

    /// The clients' port, over TLS if configured.
    pub(crate) fn at_clients_port(&self, port: Box<dyn Listen>) -> Box<dyn Listen> {
        self.secured(port, "clients' port", plain_answer)
    }

    /// The port of another protocol, likewise. `answer` is the response to a client without TLS.
    pub(crate) fn at_protocol_port(
        &self,
        port: Box<dyn Listen>,
        (name, answer): (&'static str, &str),
    ) -> Box<dyn Listen> {
        self.secured(port, name, || answer.as_bytes().to_vec())
    }

    fn secured(
        &self,
        port: Box<dyn Listen>,
        name: &'static str,
        answer: impl FnOnce() -> Vec<u8>,
    ) -> Box<dyn Listen> {
        match &self.clients {
            Some(tls) => {
                let port = SecurePort::new(port, Arc::clone(tls), name);
                Box::new(port.with_plain_answer(answer()))
            }
            None => port,
        }
    }

    /// The peers' port, likewise.
    pub(crate) fn at_peers_port(&self, port: Box<dyn Listen>) -> Box<dyn Listen> {
        match &self.peers {
            Some(tls) => {
                let port = SecurePort::new(port, Arc::clone(tls), "peers' port");
                Box::new(port.with_plain_answer(answer_without_tls()))
            }
            None => port,
        }
    }

    /// The transport of messages to peers, whose connections belong to `runtime`.
    pub(crate) fn transport(&self, runtime: Handle) -> Arc<dyn Transport> {
        match &self.peers {
            Some(tls) => secure_peer_transport(Arc::clone(tls), runtime),
            None => peer_transport(runtime),
        }
    }

    /// The expiry times of the certificates in force, in seconds since 1970, with their uses.
    pub(crate) fn expiry(&self) -> Vec<(&'static str, i64)> {
        let uses = self.uses().into_iter();
        uses.map(|(name, one)| (name, one.validity().until))
            .collect()
    }

    fn uses(&self) -> Vec<(&'static str, Arc<dyn Watched>)> {
        let clients = self.clients.clone();
        let clients = clients.map(|one| ("client", one as Arc<dyn Watched>));
        let peers = self.peers.clone();
        let peers = peers.map(|one| ("peer", one as Arc<dyn Watched>));
        clients.into_iter().chain(peers).collect()
    }

    /// Reloads the files periodically, puts changed certificates in force, and warns of
    /// certificates that expire soon.
    pub(crate) async fn keep_fresh(self, clock: Arc<dyn WallClock>) {
        let uses = self.uses();
        if uses.is_empty() {
            return;
        }
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in 0_u64.. {
            ticks.tick().await;
            let now = seconds(&*clock);
            for (name, one) in &uses {
                let looking = Arc::clone(one);
                let looked = tokio::task::spawn_blocking(move || looking.look(now));
                match looked.await {
                    Ok(Look::Taken(taken)) => {
                        tracing::info!("tls: new {name} certificate in force: {taken}");
                    }
                    Ok(Look::Refused(error)) => tracing::warn!(
                        "tls: the new {name} certificate cannot be used, the previous one stays \
                         in force: {error}"
                    ),
                    Ok(Look::Same) | Err(_) => {}
                }
                if look % LOOKS_A_DAY == 0 {
                    warn_of_end(name, one.validity(), now);
                }
            }
        }
    }
}

/// The reason why the files of these keys cannot be used, and how to make them if one is missing.
fn refused(keys: &str, error: &TlsError) -> ConfigError {
    let error = error.to_string();
    let remedy = if error.ends_with("no such file or directory") {
        "; `seqd tls init` makes the files of a cluster, `seqd tls add` those of another node"
    } else {
        ""
    };
    ConfigError(format!("{keys}: {error}{remedy}"))
}

fn warn_of_end(name: &str, validity: Validity, now: i64) {
    if validity.ends_soon(now) {
        let days = validity.days_left(now);
        tracing::warn!(
            "tls: the {name} certificate expires in {days} days: renew it (`seqd tls renew`); \
             files with the same names are loaded without a restart"
        );
    }
}

/// A certificate that is reloaded, regardless of its use.
trait Watched: Send + Sync {
    fn look(&self, now: i64) -> Look;
    fn validity(&self) -> Validity;
}

impl<T: Clone + Send + Sync> Watched for Rotating<T> {
    fn look(&self, now: i64) -> Look {
        Rotating::look(self, now)
    }

    fn validity(&self) -> Validity {
        Rotating::validity(self)
    }
}

fn seconds(clock: &dyn WallClock) -> i64 {
    i64::try_from(clock.wall().0 / 1000).unwrap_or(i64::MAX)
}

/// The complete response to a request without TLS. It is written before any HTTP is parsed.
fn plain_answer() -> Vec<u8> {
    let detail = "this port requires TLS, but the request was sent without it";
    let problem = Problem::new(ErrorCode::InvalidArgument, detail);
    let problem = problem
        .with_hint("use https:// and, for a private CA, --cacert FILE")
        .with_extra(TLS_REQUIRED, true);
    let body = serde_json::to_string(&problem).unwrap_or_default();
    let length = body.len() + 1;
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\
         content-length: {length}\r\nconnection: close\r\ncache-control: no-store\r\n\r\n{body}\n"
    )
    .into_bytes()
}
