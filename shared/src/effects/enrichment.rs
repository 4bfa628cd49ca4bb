//! The cache of enrichments, so that many events ask a partner once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;

use crate::base::time::Timestamp;

/// The latest enrichments of one container.
#[derive(Default)]
pub struct Findings(Mutex<HashMap<(String, String), (Timestamp, Value)>>);

crate::base::masked::prints_only!(Findings as "Findings");

impl Findings {
    /// The answer under this name to this question, if it is not older than `fresh`.
    pub fn get(&self, name: &str, question: &str, fresh: Duration, now: Timestamp) -> Option<Value> {
        let found = self.0.lock().ok()?;
        let (at, value) = found.get(&(name.to_owned(), question.to_owned()))?;
        (now.since(*at) < fresh).then(|| value.clone())
    }

    /// Keeps an answer. A full cache is emptied first.
    pub fn put(&self, name: &str, question: String, value: Value, now: Timestamp) {
        let Ok(mut found) = self.0.lock() else { return };
        if found.len() >= MAX_FOUND {
            found.clear();
        }
        found.insert((name.to_owned(), question), (now, value));
    }
}

/// The most answers that a container keeps.
const MAX_FOUND: usize = 1000;

/// The database of places, by IP address.
pub trait Places: Send + Sync {
    /// The place of an address: `country`, `region`, `city` and `time_zone`, as far as they are known.
    fn find(&self, ip: IpAddr) -> Option<Value>;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_fresh_for_so_long_and_there_are_only_so_many() {
        let (found, now) = (Findings::default(), Timestamp::from_secs(1000));
        let fresh = Duration::from_secs(60);
        found.put("geo", "/1".into(), json!({"country": "DE"}), now);
        assert_eq!(found.get("geo", "/1", fresh, now + fresh / 2), Some(json!({"country": "DE"})));
        assert_eq!(found.get("geo", "/1", fresh, now + fresh), None);
        assert_eq!(found.get("geo", "/2", fresh, now), None);
        for n in 0..MAX_FOUND {
            found.put("many", n.to_string(), json!(n), now);
        }
        assert_eq!(found.get("geo", "/1", fresh, now), None);
    }
}
