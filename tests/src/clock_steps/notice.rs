//! The times at which the members name a wrong clock, and another node leads.

use std::time::{Duration, Instant};

use serde_json::Value;

/// The observations since a clock was set wrong.
#[derive(Debug)]
pub struct Notice {
    begin: Instant,
    /// The name of the node with the wrong clock.
    name: String,
    /// The time until all observed nodes named the wrong clock.
    pub named: Option<Duration>,
    /// The time until one of the observed nodes followed another leader.
    pub moved: Option<Duration>,
}

impl Notice {
    #[must_use]
    pub fn since(begin: Instant, name: &str) -> Self {
        Self {
            begin,
            name: name.to_owned(),
            named: None,
            moved: None,
        }
    }

    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.named.is_some() && self.moved.is_some()
    }

    /// Evaluates the nodes' views of the cluster. `is_it` returns whether an offset in milliseconds
    /// is that of the wrong clock. A node that does not answer names no clock.
    pub fn look(&mut self, views: &[Option<Value>], is_it: impl Fn(f64) -> bool) {
        let is_named = |view: &Option<Value>| {
            let mut members = view
                .iter()
                .filter_map(|view| view["members"].as_array())
                .flatten();
            let member = members.find(|member| member["name"] == self.name);
            let ahead = member.and_then(|member| member["clock_ahead_ms"].as_f64());
            ahead.is_some_and(&is_it)
        };
        if self.named.is_none() && views.iter().all(is_named) {
            self.named = Some(self.begin.elapsed());
        }
        let leader = |view: &Value| view["leader"].as_str().map(str::to_owned);
        let mut leaders = views.iter().flatten().filter_map(leader);
        if self.moved.is_none() && leaders.any(|leader| leader != self.name) {
            self.moved = Some(self.begin.elapsed());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_have_to_name_it_and_one_to_follow_another() {
        let view = |leader: &str, ahead: Value| {
            Some(json!({
                "leader": leader,
                "members": [{"name": "n1", "clock_ahead_ms": ahead}, {"name": "n2"}]
            }))
        };
        let mut notice = Notice::since(Instant::now(), "n1");
        let is_it = |ahead: f64| (ahead - 3000.0).abs() < 10.0;
        let named = || view("n1", json!(3001.0));
        notice.look(&[named(), view("n1", Value::Null)], is_it);
        notice.look(&[named(), view("n1", json!(60_000.0))], is_it);
        notice.look(&[named(), None], is_it);
        assert!(notice.named.is_none() && notice.moved.is_none());
        notice.look(&[named(), named()], is_it);
        assert!(notice.named.is_some() && notice.moved.is_none() && !notice.is_complete());
        notice.look(&[None, view("n2", Value::Null)], is_it);
        assert!(notice.is_complete());
    }
}
