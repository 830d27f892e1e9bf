//! Who may use the clients' port: the operator's token, read at the start and again while the node runs.
//!
//! Invariants:
//! - What is kept is the hash of a token, and it is compared in constant time.
//! - A file that cannot be used leaves the token in force as it is.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use seqd_api::{Token, TokenError};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::time::{MissedTickBehavior, interval};

use crate::config::{Config, ConfigError};

/// How often the file is read again: a token that was replaced is refused about a second later.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Hash = [u8; 32];

/// Whether callers need a token, and which. Without one configured everybody is let in.
#[derive(Clone, Debug, Default)]
pub struct Access(Option<Arc<TokenFile>>);

#[derive(Debug)]
struct TokenFile {
    path: PathBuf,
    in_force: RwLock<Hash>,
}

/// What another look at the file has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Look {
    Same,
    Taken,
    Refused(TokenError),
}

impl Access {
    /// Reads the file that `config` names, if tokens are needed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(config: &Config) -> Result<Access, ConfigError> {
        let auth = &config.auth;
        let (true, Some(path)) = (auth.enabled, &auth.bootstrap_token_file) else {
            return Ok(Access::default());
        };
        let refused = |error| ConfigError(format!("auth.bootstrap_token_file: {error}"));
        let token = Token::read(path).map_err(refused)?;
        Ok(Access(Some(Arc::new(TokenFile {
            path: path.clone(),
            in_force: RwLock::new(hash(token.secret().as_bytes())),
        }))))
    }

    pub(crate) fn needs_token(&self) -> bool {
        self.0.is_some()
    }

    /// Whether this is the token in force.
    pub(crate) fn knows(&self, token: &[u8]) -> bool {
        let Some(file) = &self.0 else {
            return false;
        };
        let in_force = file.in_force.read().unwrap_or_else(PoisonError::into_inner);
        hash(token).ct_eq(&*in_force).into()
    }

    /// Reads the file again and again, and takes the token that replaced the one before.
    pub(crate) async fn keep_fresh(self) {
        let Some(file) = self.0 else {
            return;
        };
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Look::Same;
        loop {
            ticks.tick().await;
            let looking = Arc::clone(&file);
            let Ok(look) = tokio::task::spawn_blocking(move || looking.look()).await else {
                continue;
            };
            match &look {
                Look::Taken => tracing::info!("access: a new bootstrap token is in force"),
                // Once for each reason.
                Look::Refused(error) if look != last => tracing::warn!(
                    "access: the bootstrap token in force stays, its file cannot be used: {error}"
                ),
                Look::Refused(_) | Look::Same => {}
            }
            last = look;
        }
    }
}

impl TokenFile {
    fn look(&self) -> Look {
        let found = match Token::read(&self.path) {
            Ok(token) => hash(token.secret().as_bytes()),
            Err(error) => return Look::Refused(error),
        };
        let mut in_force = self
            .in_force
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if *in_force == found {
            return Look::Same;
        }
        *in_force = found;
        Look::Taken
    }
}

fn hash(secret: &[u8]) -> Hash {
    Sha256::digest(secret).into()
}
