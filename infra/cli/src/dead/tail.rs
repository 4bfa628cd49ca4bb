//! `ledgerline dead tail`

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use shared::base::time::Timestamp;
use shared::base::visible::in_json;
use shared::ledger::batch::Filter;
use tokio::time::sleep;

use super::parked_event::{ParkedEvent, list_operation};
use crate::args::{FilterArgs, MAX_LISTED, moment_before, now, up_to};
use crate::cloud::{self, CloudArgs, CloudClient};
use crate::output::print_or_end;
use crate::{CommandExit, interrupt};

pub(super) const EXAMPLES: &str = "\
Examples:
  ledgerline dead tail --follow                                     prints each event as it is parked
  ledgerline dead tail --flow lead-routing --reason attempts_spent
  ledgerline dead tail --json --limit 100 | jq -r .reason | sort | uniq -c

With --json, each event is one JSON object on a line of its own.";

/// How often a follower queries.
const EVERY: Duration = Duration::from_secs(2);

/// How far back a follower looks each time: the clocks of the functions that park may differ.
const OVERLAP: Duration = Duration::from_secs(60);

/// Print the newest parked events like a log, the newest at the bottom.
#[derive(Debug, Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    only: FilterArgs,
    #[arg(long, default_value_t = 20, value_parser = up_to(MAX_LISTED))]
    #[arg(help = format!("How many events at most to begin with, up to {MAX_LISTED}"))]
    limit: u32,
    /// Keep running, and print each event that is parked from now on, until ctrl-c.
    #[arg(long, short)]
    follow: bool,
}

impl TailArgs {
    pub(crate) fn run(self, at: &CloudArgs, json: bool) -> Result<CommandExit> {
        cloud::with(at, async |cloud| {
            let filter = self.only.filter(now());
            let first = parked(&cloud.query(list_operation(&filter, MAX_LISTED)).await?);
            print_or_end(&text(&first[..first.len().min(self.limit as usize)], json))?;
            if self.follow {
                interrupt::until_ctrl_c(follow(cloud, filter, &first, json)).await.unwrap_or(Ok(()))?;
            }
            Ok(CommandExit::Success)
        })
    }
}

/// Prints each event that is parked from now on. It ends only by an error.
async fn follow(cloud: &CloudClient, filter: Filter, first: &[Value], json: bool) -> Result<()> {
    let mut seen = SeenEvents::new(first, now());
    loop {
        sleep(EVERY).await;
        let answer = cloud.query(list_operation(&seen.filter(&filter), MAX_LISTED)).await?;
        print_or_end(&text(&seen.take_unseen(parked(&answer)), json))?;
    }
}

fn parked(answer: &Value) -> Vec<Value> {
    answer["parked"].as_array().cloned().unwrap_or_default()
}

/// The events as a log, the newest at the bottom. They come with the newest first.
fn text(lines: &[Value], json: bool) -> String {
    let log = |line: &Value| ParkedEvent::deserialize(line).map(|line| line.log()).unwrap_or_default();
    lines.iter().rev().map(|line| if json { format!("{}\n", in_json(&line.to_string())) } else { log(line) }).collect()
}

/// The events that a follower has printed.
#[derive(Debug)]
struct SeenEvents {
    /// The time and the id of each, no older than the next query asks for.
    keys: BTreeSet<(String, String)>,
    newest: Timestamp,
    /// What was parked before this is not printed, even if it comes into view.
    from: String,
}

impl SeenEvents {
    fn new(first: &[Value], now: Timestamp) -> Self {
        // Fewer than one answer holds: whatever appears is new.
        let from =
            if first.len() < MAX_LISTED as usize { String::new() } else { first.last().map(key).unwrap_or_default().0 };
        let mut seen =
            SeenEvents { keys: BTreeSet::new(), newest: first.first().map_or(now, |line| moment(line, now)), from };
        seen.take_unseen(first.to_vec());
        seen
    }

    /// The filter of the next query.
    fn filter(&self, filter: &Filter) -> Filter {
        Filter { since: filter.since.max(Some(moment_before(self.newest, OVERLAP))), ..filter.clone() }
    }

    /// The events that were not seen before. From now on they are.
    fn take_unseen(&mut self, lines: Vec<Value>) -> Vec<Value> {
        let unseen: Vec<Value> =
            lines.into_iter().filter(|line| key(line).0 >= self.from && self.keys.insert(key(line))).collect();
        self.newest = unseen.first().map_or(self.newest, |line| moment(line, self.newest).max(self.newest));
        let since = moment_before(self.newest, OVERLAP).to_string();
        self.keys.retain(|(parked_at, _)| *parked_at >= since);
        unseen
    }
}

/// An event that is parked once more counts as unseen.
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
        let mut seen = SeenEvents::new(&[line("b", 1000), line("a", 990)], Timestamp::from_secs(2000));
        assert_eq!(seen.filter(&Filter::default()).since, Some(Timestamp::from_secs(940)));
        assert_eq!(ids(&seen.take_unseen(vec![line("b", 1000), line("a", 990)])), [""; 0]);
        // One whose clock is behind, one that is parked once more.
        assert_eq!(ids(&seen.take_unseen(vec![line("a", 1005), line("b", 1000), line("late", 995)])), ["a", "late"]);
        assert_eq!(ids(&seen.take_unseen(vec![line("c", 1100), line("a", 1005)])), ["c"]);
        assert_eq!(seen.keys.len(), 1, "what is not asked for any more is forgotten");
    }

    #[test]
    fn what_was_beyond_the_first_look_is_no_news() {
        let first: Vec<Value> = (0..100).map(|n| line(&n.to_string(), 1000 - n)).collect();
        let mut seen = SeenEvents::new(&first, Timestamp::from_secs(2000));
        assert_eq!(ids(&seen.take_unseen(vec![line("old", 890), line("new", 1001)])), ["new"]);
    }

    #[test]
    fn a_follower_keeps_to_what_was_asked() {
        let later = Filter { since: Some(Timestamp::from_secs(5000)), ..Filter::default() };
        let seen = SeenEvents::new(&[], Timestamp::from_secs(2000));
        assert_eq!(seen.filter(&later).since, later.since);
    }
}
