//! Reading typed values out of merged texts, with refusals that say what is allowed.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use super::ConfigError;
use super::layers::{Layers, Origin, Raw};

/// Typed access to the merged layers.
pub(super) struct Take<'a> {
    pub(super) layers: &'a Layers,
}

impl Take<'_> {
    pub(super) fn given(&self, key: &'static str) -> Option<(Origin, Raw)> {
        self.layers.get(key)
    }

    pub(super) fn refuse(&self, key: &'static str, allowed: &str) -> ConfigError {
        let (origin, raw) = self
            .layers
            .get(key)
            .unwrap_or((Origin::Default, Raw::One(String::new())));
        ConfigError::Value {
            key,
            value: raw.text(),
            origin: origin.to_string(),
            allowed: allowed.to_owned(),
        }
    }

    pub(super) fn text(&self, key: &'static str) -> Result<String, ConfigError> {
        let text = self
            .layers
            .get(key)
            .map(|(_, raw)| raw.text())
            .unwrap_or_default();
        if text.is_empty() {
            return Err(self.refuse(key, "it may not be empty"));
        }
        Ok(text)
    }

    pub(super) fn items(&self, key: &'static str) -> Vec<String> {
        self.layers
            .get(key)
            .map(|(_, raw)| raw.items())
            .unwrap_or_default()
    }

    pub(super) fn number(&self, key: &'static str, min: u64, max: u64) -> Result<u64, ConfigError> {
        let number = self
            .text(key)?
            .parse::<u64>()
            .ok()
            .filter(|n| (min..=max).contains(n));
        number.ok_or_else(|| self.refuse(key, &format!("a whole number from {min} to {max}")))
    }

    pub(super) fn duration(
        &self,
        key: &'static str,
        min: Duration,
        max: Duration,
    ) -> Result<Duration, ConfigError> {
        let given = humantime::parse_duration(&self.text(key)?).ok();
        given
            .filter(|duration| (min..=max).contains(duration))
            .ok_or_else(|| {
                let (min, max) = (
                    humantime::format_duration(min),
                    humantime::format_duration(max),
                );
                self.refuse(
                    key,
                    &format!("a duration such as \"500ms\" or \"3s\", {min} to {max}"),
                )
            })
    }

    pub(super) fn address(&self, key: &'static str) -> Result<SocketAddr, ConfigError> {
        let text = self.text(key)?;
        // `:7400` means every interface, as it does elsewhere.
        let full = if text.starts_with(':') {
            format!("0.0.0.0{text}")
        } else {
            text
        };
        let found = full
            .to_socket_addrs()
            .ok()
            .and_then(|mut addresses| addresses.next());
        found.ok_or_else(|| self.refuse(key, "HOST:PORT of this machine, such as 0.0.0.0:7400"))
    }

    pub(super) fn host_port(&self, key: &'static str) -> Result<String, ConfigError> {
        let text = self.text(key)?;
        if is_host_port(&text) {
            Ok(text)
        } else {
            Err(self.refuse(key, "HOST:PORT"))
        }
    }

    pub(super) fn url(&self, key: &'static str) -> Result<String, ConfigError> {
        let text = self.text(key)?;
        let rest = text
            .strip_prefix("http://")
            .or_else(|| text.strip_prefix("https://"));
        match rest.map(|rest| rest.trim_end_matches('/')) {
            Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', ' ']) => {
                Ok(text.trim_end_matches('/').to_owned())
            }
            _ => Err(self.refuse(key, "a URL without a path, such as http://n1.example:7400")),
        }
    }
}

/// Whether the text is an address with a port above 0.
pub(super) fn is_host_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"/?#@=,".contains(&byte);
        !host.is_empty()
            && host.bytes().all(plain)
            && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}
