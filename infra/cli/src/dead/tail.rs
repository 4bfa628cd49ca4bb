//! `ledgerline dead tail`

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use shared::base::time::Timestamp;
use shared::ledger::batch::Filter;
use tokio::time::sleep;

use super::line::{Line, listing};
use crate::args::{MOST, Only, before, now, up_to};
use crate::cloud::{self, At, Cloud};
use crate::output::say;
use crate::{Verdict, interrupt};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline dead tail --follow                                     what is parked as it is parked
  ledgerline dead tail --flow lead-routing --reason attempts_spent
  ledgerline dead tail --json --limit 100 | jq -r .reason | sort | uniq -c

With --json, each event is one object on a line of its own.";

/// How often a follower looks.
const EVERY: Duration = Duration::from_secs(2);

/// How far back a follower looks each time: the clocks of those who park may differ.
const OVERLAP: Duration = Duration::from_secs(60);

/// Print the newest parked events like a log, the newest at the bottom.
#[derive(Debug, Args)]
pub(crate) struct Tail {
    #[command(flatten)]
    only: Only,
    #[arg(long, default_value_t = 20, value_parser = up_to(MOST))]
    #[arg(help = format!("How many at most to begin with, up to {MOST}"))]
    limit: u32,
    /// Go on, and print what is parked from now on, until ctrl-c.
    #[arg(long, short)]
    follow: bool,
}

impl Tail {
    pub(crate) fn run(self, at: &At, json: bool) -> Result<Verdict> {
        cloud::with(at, async |cloud| {
            let filter = self.only.filter(now());
            let first = parked(&cloud.look(listing(&filter, MOST)).await?);
            say(&text(&first[..first.len().min(self.limit as usize)], json))?;
            if self.follow {
                interrupt::or(follow(cloud, filter, &first, json)).await.unwrap_or(Ok(()))?;
            }
            Ok(Verdict::Fine)
        })
    }
}

/// Prints what is parked from now on. It ends only by an error.
async fn follow(cloud: &Cloud, filter: Filter, first: &[Value], json: bool) -> Result<()> {
    let mut seen = Seen::new(first, now());
    loop {
        sleep(EVERY).await;
        let answer = cloud.look(listing(&seen.filter(&filter), MOST)).await?;
        say(&text(&seen.news(parked(&answer)), json))?;
    }
}

fn parked(answer: &Value) -> Vec<Value> {
    answer["parked"].as_array().cloned().unwrap_or_default()
}

/// Lines, which come with the newest first, as a log.
fn text(lines: &[Value], json: bool) -> String {
    let log = |line: &Value| Line::deserialize(line).map(|line| line.log()).unwrap_or_default();
    lines.iter().rev().map(|line| if json { format!("{line}\n") } else { log(line) }).collect()
}

/// What a follower has seen.
#[derive(Debug)]
struct Seen {
    /// When what was parked, no older than what is asked for.
    keys: BTreeSet<(String, String)>,
    newest: Timestamp,
    /// What was parked before is no news, even if it comes into view.
    from: String,
}

impl Seen {
    fn new(first: &[Value], now: Timestamp) -> Self {
        // Fewer than can be seen: whatever appears is new.
        let from =
            if first.len() < MOST as usize { String::new() } else { first.last().map(key).unwrap_or_default().0 };
        let mut seen =
            Seen { keys: BTreeSet::new(), newest: first.first().map_or(now, |line| moment(line, now)), from };
        seen.news(first.to_vec());
        seen
    }

    /// What to ask for next.
    fn filter(&self, filter: &Filter) -> Filter {
        Filter { since: filter.since.max(Some(before(self.newest, OVERLAP))), ..filter.clone() }
    }

    /// Those that were not seen before.
    fn news(&mut self, lines: Vec<Value>) -> Vec<Value> {
        let news: Vec<Value> =
            lines.into_iter().filter(|line| key(line).0 >= self.from && self.keys.insert(key(line))).collect();
        self.newest = news.first().map_or(self.newest, |line| moment(line, self.newest).max(self.newest));
        let since = before(self.newest, OVERLAP).to_string();
        self.keys.retain(|(parked_at, _)| *parked_at >= since);
        news
    }
}

/// An event that is parked once more is news.
fn key(line: &Value) -> (String, String) {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    (text("parked_at"), text("id"))
}

fn moment(line: &Value, otherwise: Timestamp) -> Timestamp {
    line["parked_at"].as_str().and_then(Timestamp::parse).unwrap_or(otherwise)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(id: &str, second: i64) -> Value {
        json!({"id": id, "flow": "leads", "state": "dead", "version": "1.1", "reason": "terminal", "effect": "crm",
               "error": "answered 422", "parked_at": Timestamp::from_secs(second).to_string()})
    }

    fn ids(lines: &[Value]) -> Vec<&str> {
        lines.iter().filter_map(|line| line["id"].as_str()).collect()
    }

    #[test]
    fn the_newest_is_at_the_bottom_and_json_is_a_line_each() {
        let lines = [line("new", 1000), line("old", 900)];
        insta::assert_snapshot!(anstream::adapter::strip_str(&text(&lines, false)));
        let read: Vec<Value> =
            text(&lines, true).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(ids(&read), ["old", "new"]);
    }

    #[test]
    fn a_follower_prints_only_what_is_new() {
        let mut seen = Seen::new(&[line("b", 1000), line("a", 990)], Timestamp::from_secs(2000));
        assert_eq!(seen.filter(&Filter::default()).since, Some(Timestamp::from_secs(940)));
        assert_eq!(ids(&seen.news(vec![line("b", 1000), line("a", 990)])), [""; 0]);
        // One whose clock is behind, one that is parked once more.
        assert_eq!(ids(&seen.news(vec![line("a", 1005), line("b", 1000), line("late", 995)])), ["a", "late"]);
        assert_eq!(ids(&seen.news(vec![line("c", 1100), line("a", 1005)])), ["c"]);
        assert_eq!(seen.keys.len(), 1, "what is not asked for any more is forgotten");
    }

    #[test]
    fn what_was_beyond_the_first_look_is_no_news() {
        let first: Vec<Value> = (0..100).map(|n| line(&n.to_string(), 1000 - n)).collect();
        let mut seen = Seen::new(&first, Timestamp::from_secs(2000));
        assert_eq!(ids(&seen.news(vec![line("old", 890), line("new", 1001)])), ["new"]);
    }

    #[test]
    fn a_follower_keeps_to_what_was_asked() {
        let later = Filter { since: Some(Timestamp::from_secs(5000)), ..Filter::default() };
        let seen = Seen::new(&[], Timestamp::from_secs(2000));
        assert_eq!(seen.filter(&later).since, later.since);
    }
}
