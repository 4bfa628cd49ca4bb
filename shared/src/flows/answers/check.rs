//! Checks of the tables from answers to meanings.

use super::{AnswerRule, Meaning, RetryAfterAt, check_pointer, judges_success};
use crate::base::wrong::{Wrong, step};
use crate::flows::{Effect, Flows};

/// The mistakes in a table, row by row.
pub(in crate::flows) fn check_rules(rules: &[AnswerRule]) -> Vec<Wrong> {
    let rules = rules.iter().enumerate();
    rules
        .flat_map(|(index, rule)| check_rule(rule).into_iter().map(move |w| w.under(&format!("/answers/{index}"))))
        .collect()
}

fn check_rule(rule: &AnswerRule) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if rule.status.is_none() && rule.when.is_none() {
        let hint = "add a `status`, or a condition such as `when: body.ok == false`";
        wrong.push(Wrong::at("", "a row of answers fits every answer").hint(hint));
    }
    if !rule.result.is_empty() && rule.means != Meaning::Done {
        let what = format!("only an answer that means done has a result, and this row means {}", rule.means.as_str());
        wrong.push(Wrong::at("/result", what));
    }
    if rule.retry_after.is_some() && !matches!(rule.means, Meaning::Retry | Meaning::InDoubt) {
        let what = format!("retry_after is not used where an answer means {}", rule.means.as_str());
        wrong.push(Wrong::at("/retry_after", what).hint("a call is tried again after `retry` and `in_doubt`"));
    }
    if let Some(RetryAfterAt::Body(pointer)) = &rule.retry_after {
        wrong.extend(check_pointer("/retry_after/body", pointer));
    }
    wrong.extend(rule.result.iter().filter_map(|(name, result)| result.check(format!("/result{}", step(name)))));
    wrong
}

/// Whether a table judges a 2xx by its body, and has no row that says which body means done.
pub(in crate::flows) fn lacks_success<'r, R: Iterator<Item = &'r AnswerRule>>(rules: impl Fn() -> R) -> bool {
    rules().any(judges_success) && !rules().any(|rule| rule.means == Meaning::Done && rule.covers_success())
}

/// The mistakes in the table that is in force for an effect: its own rows, then its integration's.
pub(in crate::flows) fn check_effect(effect: &Effect, all: &Flows) -> Vec<Wrong> {
    let mut wrong = check_rules(effect.own_answers());
    // Where the effect has no row of its own, the table is its partner's, and is checked there.
    let own = effect.named.is_none() || !effect.own_answers().is_empty();
    if own && !effect.is_graphql() && lacks_success(|| all.answer_rules(effect)) {
        let what = format!("effect `{}` judges a 2xx by its body, but no row says which body means done", effect.id);
        let hint = "add a row such as `{status: 200..299, when: body.ok == true, means: done}`: without it, \
                    every 2xx that no row fits would be in doubt";
        wrong.push(Wrong::at("/answers", what).hint(hint));
    }
    let declared = |rule: &AnswerRule| rule.result.keys().find(|name| !effect.result.contains_key(*name)).cloned();
    if let Some(name) = effect.own_answers().iter().find_map(declared) {
        let what = format!("a row of answers keeps `{name}`, which effect `{}` does not list in its result", effect.id);
        wrong.push(Wrong::at("/answers", what).hint("add it to the effect's `result`"));
    }
    wrong
}
