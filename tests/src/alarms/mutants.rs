//! That the cases would see a change: each alarm is broken in a few ways, and each time a case must come out otherwise.
//!
//! A threshold is doubled and halved, so that no case is further from it than that. What counts the first of something
//! has nothing below it, and is only doubled.

use super::cases::Recorded;
use super::definition::{Alarm, QuerySource};
use super::insights;
use super::math;

/// An alarm that was broken, and how.
type Mutant = (String, Alarm);

/// Numbers of an expression that are no limit: nothing, all, percent, and milliseconds of a second.
const NO_LIMITS: [&str; 4] = ["0", "1", "100", "1000"];

fn mutants(alarm: &Alarm) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    let mut broken = |what: String, change: &dyn Fn(&mut Alarm)| {
        let mut mutant = alarm.clone();
        change(&mut mutant);
        mutants.push((what, mutant));
    };
    let first = alarm.threshold == 1.0;
    broken("a doubled threshold".into(), &|alarm| alarm.threshold *= 2.0);
    if !first {
        broken("half the threshold".into(), &|alarm| alarm.threshold /= 2.0);
    }
    if alarm.to_alarm > 1 {
        broken("one data point less".into(), &|alarm| alarm.to_alarm -= 1);
        broken("periods six times as long".into(), &|alarm| alarm.period *= 6);
    } else if !first && !is_gauge(alarm) {
        broken("periods six times as long".into(), &|alarm| alarm.period *= 6);
    }
    for (query, at, number) in numbers(alarm) {
        for factor in [0.5, 2.0] {
            let changed = |alarm: &mut Alarm| scale(alarm, query, at, number * factor);
            broken(format!("{} in the place of {number}", number * factor), &changed);
        }
    }
    mutants
}

/// Whether each sample is how it is, and not how many there were: how long a period is makes no difference.
fn is_gauge(alarm: &Alarm) -> bool {
    alarm.queries.iter().all(|query| matches!(&query.of, QuerySource::Stat(_, stat) if stat == "Maximum"))
}

/// The limits in an alarm's expressions: which query, which token, and the number.
fn numbers(alarm: &Alarm) -> Vec<(usize, usize, f64)> {
    let mut found = Vec::new();
    for (query, of) in alarm.queries.iter().map(|query| &query.of).enumerate() {
        let QuerySource::Expression(text) = of else { continue };
        if insights::is_query(text) {
            continue;
        }
        let tokens = math::tokens(text).into_iter().enumerate();
        let limits = tokens.filter(|(_, token)| !NO_LIMITS.contains(&token.as_str()));
        found.extend(limits.filter_map(|(at, token)| Some((query, at, token.parse().ok()?))));
    }
    found
}

fn scale(alarm: &mut Alarm, query: usize, at: usize, number: f64) {
    if let QuerySource::Expression(text) = &mut alarm.queries[query].of {
        let mut tokens = math::tokens(text);
        tokens[at] = number.to_string();
        *text = tokens.join(" ");
    }
}

/// A change that no run can show, and why: a breaker that opens defers the event that opened it, so that there are never
/// fewer than two.
const UNSEEN: [(&str, &str); 1] = [("BreakerOpen", "a doubled threshold")];

/// How an alarm may be broken without a case that comes out otherwise; and what is said to be unseen, and is seen.
pub(super) fn survivors(name: &str, alarm: &Alarm, recorded: &Recorded) -> Vec<String> {
    let survives = |(what, mutant): Mutant| {
        let (survives, unseen) = (recorded.judge(&mutant).is_ok(), UNSEEN.contains(&(name, &*what)));
        (survives != unseen).then_some(what)
    };
    mutants(alarm).into_iter().filter_map(survives).collect()
}

#[test]
fn an_alarm_is_broken_in_each_way() {
    let alarms = super::definition::alarms();
    let ways = |name: &str| mutants(&alarms[name]).into_iter().map(|(what, _)| what).collect::<Vec<_>>();
    assert_eq!(ways("DeadLetters"), ["a doubled threshold"]);
    assert_eq!(
        ways("ApiErrors"),
        [
            "a doubled threshold",
            "half the threshold",
            "one data point less",
            "periods six times as long",
            "0.025 in the place of 0.05",
            "0.1 in the place of 0.05"
        ]
    );
}
