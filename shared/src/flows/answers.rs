//! What a partner's answer means for the call: as the flow's author declares it, else the safe default.
//!
//! Few answers surely say that nothing happened. A proxy answers 503 or 408 after the partner has acted, a 409 may
//! mean "exists already", a 303 that it is done, and a 200 may say in its body that it failed. So the default is doubt,
//! and whoever knows the partner better says so.

mod statuses;
mod expression;
mod result;
mod check;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(super) use check::{check_effect, check_rules, lacks_success};
pub use expression::{AnswerExpression, LookedUpCall};
#[cfg(feature = "schema")]
pub(super) use result::WrittenResult;
pub(super) use result::check_pointer;
pub use result::{AnswerPlace, ResultAt};
pub use statuses::Statuses;

use super::{Action, Effect, Flows, Integration, Lookup};
use crate::base::time::Timestamp;
use expression::NotEvaluated;
use statuses::ranges;

/// A partner's answer.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct PartnerAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The header fields, under lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body, if it is JSON that could be read to its end.
    pub body: Option<Value>,
}

crate::base::masked::prints_only!(PartnerAnswer as "PartnerAnswer", status);

/// The meaning of an answer for the call that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum Meaning {
    /// The call happened.
    Done,
    /// The call surely did nothing. It is tried again, by the policy.
    Retry,
    /// The call surely did nothing, and will not.
    Failed,
    /// The call may have happened.
    InDoubt,
    /// The partner did not take our credentials: the call surely did nothing, and the fault is ours.
    #[serde(skip)]
    CredentialsRejected,
}

impl Meaning {
    /// The meaning in words, for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Meaning::Done => "done",
            Meaning::Retry => "retry",
            Meaning::Failed => "failed",
            Meaning::InDoubt => "in doubt",
            Meaning::CredentialsRejected => "credentials rejected",
        }
    }
}

/// One row of the table from answers to meanings. The first row that fits decides.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct AnswerRule {
    /// The HTTP statuses that the row is about: `503`, `500..599`, or a list of these. Without it, all.
    #[serde(default)]
    pub status: Option<Statuses>,
    /// The condition on the answer: an expression over `status`, `headers` and `body`, such as `body.ok == false`.
    /// Where it cannot be evaluated, because the body is cut off, too long or no JSON, the call is in doubt.
    #[serde(default)]
    pub when: Option<AnswerExpression>,
    /// What such an answer means: `done`, `retry`, `failed` or `in_doubt`.
    pub means: Meaning,
    /// Where such an answer says how long to wait, if not in `Retry-After`.
    #[serde(default)]
    pub retry_after: Option<RetryAfterAt>,
    /// Where the results stand in such an answer, if not where the effect says.
    #[serde(default)]
    pub result: BTreeMap<String, ResultAt>,
}

/// The place in an answer that says how long to wait: seconds, or a date as in `Retry-After`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "snake_case")]
pub enum RetryAfterAt {
    /// A header.
    Header(String),
    /// A JSON pointer into the body.
    Body(String),
}

impl AnswerRule {
    /// Whether the row is about an answer.
    fn fits(&self, answer: &PartnerAnswer) -> Result<bool, NotEvaluated> {
        match &self.when {
            _ if !self.covers(answer.status) => Ok(false),
            Some(when) => when.holds(answer),
            None => Ok(true),
        }
    }

    fn covers(&self, status: u16) -> bool {
        self.status.as_ref().is_none_or(|statuses| statuses.contain(status))
    }

    fn reads_body(&self) -> bool {
        self.when.as_ref().is_some_and(AnswerExpression::reads_body)
    }

    /// Whether the row is about answers that mean success by their status alone.
    fn covers_success(&self) -> bool {
        SUCCESS.into_iter().any(|status| self.covers(status))
    }
}

const SUCCESS: std::ops::RangeInclusive<u16> = 200..=299;

/// What an answer means, and the row that says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'f> {
    /// The meaning.
    pub meaning: Meaning,
    /// The row that decides, if one does.
    rule: Option<&'f AnswerRule>,
    /// Whether a row could not be evaluated: then no later row is asked.
    pub unreadable: bool,
}

impl<'f> Reading<'f> {
    /// The meaning of an answer that no table is asked about: it says itself what it means.
    pub fn stated(meaning: Meaning) -> Self {
        Reading { meaning, rule: None, unreadable: false }
    }

    /// The row that decided, if one did.
    pub fn row(&self) -> Option<&'f AnswerRule> {
        self.rule
    }

    /// How long the answer asks us to wait: where its row says, else in `Retry-After`.
    pub fn retry_after(&self, answer: &PartnerAnswer, now: Timestamp) -> Option<Duration> {
        let text = match self.rule.and_then(|rule| rule.retry_after.as_ref()) {
            Some(RetryAfterAt::Body(pointer)) => match answer.body.as_ref()?.pointer(pointer)? {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
            Some(RetryAfterAt::Header(name)) => answer.headers.get(&name.to_ascii_lowercase())?.clone(),
            None => answer.headers.get("retry-after")?.clone(),
        };
        delay(&text, now)
    }

    /// Where a result stands in the answer, given where the effect says.
    pub fn place<'a>(&'a self, name: &str, usual: &'a ResultAt) -> &'a ResultAt {
        self.rule.and_then(|rule| rule.result.get(name)).unwrap_or(usual)
    }
}

impl PartnerAnswer {
    /// How long the header `Retry-After` asks us to wait.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        delay(self.headers.get("retry-after")?, now)
    }
}

/// The delay that a text asks for: seconds, also with a fraction, or an HTTP date.
fn delay(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Some(Duration::try_from_secs_f64(text.parse().ok()?).unwrap_or(Duration::MAX));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Timestamp::from_millis(date.as_millisecond()).since(now))
}

impl Flows {
    /// What an answer means for an effect's call: by the effect's table, then its integration's, then the default.
    pub fn read_answer<'f>(&'f self, effect: &'f Effect, answer: &PartnerAnswer) -> Reading<'f> {
        read(|| self.answer_rules(effect), answer, effect.is_graphql())
    }

    /// What the answer to a lookup means: by its integration's table, then the default. The effect's own rows are about
    /// its call.
    pub fn read_lookup<'f>(&'f self, effect: &'f Effect, lookup: &Lookup, answer: &PartnerAnswer) -> Reading<'f> {
        let rules = || self.partner_of(effect).into_iter().flat_map(|partner| &partner.answers);
        read(rules, answer, lookup.request.graphql.is_some())
    }

    /// What an answer means that belongs to no effect, such as that to an enrichment: by the integration's table, then
    /// the default.
    pub fn read_question<'f>(&self, partner: &'f Integration, answer: &PartnerAnswer) -> Reading<'f> {
        read(|| partner.answers.iter(), answer, false)
    }

    /// The table in force for an effect's call: the rows that read more than the status, in their order, then each
    /// meaning with its statuses. What it does not list is in doubt.
    pub fn answers_in_force(&self, effect: &Effect) -> Vec<String> {
        if let Action::Invoke(_) = effect.action {
            return OF_FUNCTIONS.map(str::to_owned).into();
        }
        let graphql = effect.is_graphql();
        let judged_by_data = graphql.then(|| "done where 200..299 and it has `data` and no `errors`".to_owned());
        let conditional = self.answer_rules(effect).filter_map(|rule| {
            let when = rule.when.as_ref()?.as_str();
            let status = rule.status.as_ref().map(|s| format!("{} and ", ranges_of(s)));
            Some(format!("{} where {}{when}", rule.means.as_str(), status.unwrap_or_default()))
        });
        let by_status = |status: &u16| {
            let rule = self.answer_rules(effect).find(|rule| rule.when.is_none() && rule.covers(*status));
            let judged = SUCCESS.contains(status) && (graphql || self.answer_rules(effect).any(judges_success));
            rule.map_or_else(|| if judged { Meaning::InDoubt } else { default_meaning(*status) }, |rule| rule.means)
        };
        conditional.chain(judged_by_data).chain([told_by_status(by_status)]).collect()
    }

    /// The table in force for an effect's call, where that is not the default.
    pub fn own_answers(&self, effect: &Effect) -> Option<Vec<String>> {
        effect.integration()?;
        let rows = self.answers_in_force(effect);
        let is_declared = self.answer_rules(effect).next().is_some();
        (is_declared || rows != [default_answers()]).then_some(rows)
    }

    /// The rows for an effect's call, in the order in which they are asked.
    fn answer_rules<'f>(&'f self, effect: &'f Effect) -> impl Iterator<Item = &'f AnswerRule> {
        effect.answers.iter().chain(self.partner_of(effect).into_iter().flat_map(|partner| &partner.answers))
    }
}

/// The first row that fits decides. A row that cannot be evaluated might have been the one.
fn read<'f, R: Iterator<Item = &'f AnswerRule>>(
    rules: impl Fn() -> R,
    answer: &PartnerAnswer,
    graphql: bool,
) -> Reading<'f> {
    for rule in rules() {
        match rule.fits(answer) {
            Ok(true) => return Reading { meaning: rule.means, rule: Some(rule), unreadable: false },
            Ok(false) => (),
            Err(NotEvaluated) => return Reading { meaning: Meaning::InDoubt, rule: None, unreadable: true },
        }
    }
    let meaning = match default_meaning(answer.status) {
        Meaning::Done if graphql => graphql_meaning(answer.body.as_ref()),
        Meaning::Done if rules().any(judges_success) => Meaning::InDoubt,
        meaning => meaning,
    };
    Reading { meaning, rule: None, unreadable: false }
}

/// A GraphQL error comes with 200, and says nothing surely: part of the mutation may have been done.
fn graphql_meaning(body: Option<&Value>) -> Meaning {
    let Some(body) = body else { return Meaning::InDoubt };
    let failed = body.get("errors").is_some_and(|errors| !errors.is_null() && errors != &Value::Array(Vec::new()));
    let data = body.get("data").is_some_and(|data| !data.is_null());
    if data && !failed { Meaning::Done } else { Meaning::InDoubt }
}

/// Whether a row reads the bodies of answers whose status means success: then the status alone does not say so.
fn judges_success(rule: &AnswerRule) -> bool {
    rule.reads_body() && rule.covers_success()
}

fn ranges_of(statuses: &Statuses) -> String {
    ranges((100..=599).filter(|status| statuses.contain(*status))).join(", ")
}

/// The table of a call for which nothing is declared, in words.
pub fn default_answers() -> String {
    told_by_status(|status| default_meaning(*status))
}

/// Each meaning with its statuses, in words.
fn told_by_status(meaning_of: impl Fn(&u16) -> Meaning) -> String {
    let meanings = [Meaning::Done, Meaning::Retry, Meaning::Failed, Meaning::CredentialsRejected];
    let listed = meanings.into_iter().filter_map(|meaning| {
        let ranges = ranges((100..=599).filter(|status| meaning_of(status) == meaning));
        (!ranges.is_empty()).then(|| format!("{} {}", meaning.as_str(), ranges.join(", ")))
    });
    listed.chain(["in doubt all others".to_owned()]).collect::<Vec<_>>().join("; ")
}

/// What the answers to an invocation mean.
const OF_FUNCTIONS: [&str; 4] = [
    "done, retry, failed, in doubt as the function answers",
    "retry where Lambda did not run it: throttled, not found, not able to start",
    "credentials rejected where the processor may not invoke it",
    "in doubt all others: it raised, timed out, died, or its answer cannot be read",
];

/// The meaning of a status that no table names.
pub fn default_meaning(status: u16) -> Meaning {
    match status {
        200..=299 => Meaning::Done,
        429 => Meaning::Retry,
        401 | 403 => Meaning::CredentialsRejected,
        400 | 404 | 405 | 410 | 413 | 415 | 422 => Meaning::Failed,
        _ => Meaning::InDoubt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_declared_is_in_doubt_unless_it_is_surely_not() {
        for (statuses, meaning) in [
            (&[200, 201, 202, 204, 299][..], Meaning::Done),
            (&[429], Meaning::Retry),
            (&[400, 404, 405, 410, 413, 415, 422], Meaning::Failed),
            (&[401, 403], Meaning::CredentialsRejected),
            (&[101, 301, 303, 307, 402, 408, 409, 423, 425, 451, 500, 501, 502, 503, 504, 511, 599], Meaning::InDoubt),
        ] {
            for status in statuses {
                assert_eq!(default_meaning(*status), meaning, "{status}");
            }
        }
    }

    #[test]
    fn a_graphql_answer_is_done_by_its_data_and_not_by_its_status() {
        use serde_json::json;
        for (body, meaning) in [
            (Some(json!({"data": {"id": 1}})), Meaning::Done),
            (Some(json!({"data": {"id": 1}, "errors": []})), Meaning::Done),
            (Some(json!({"data": {"id": 1}, "errors": null})), Meaning::Done),
            (Some(json!({"data": {"id": 1}, "errors": [{"message": "no"}]})), Meaning::InDoubt),
            (Some(json!({"data": null})), Meaning::InDoubt),
            (Some(json!({})), Meaning::InDoubt),
            (None, Meaning::InDoubt),
        ] {
            let answer = PartnerAnswer { status: 200, body, ..PartnerAnswer::default() };
            assert_eq!(read(|| [].iter(), &answer, true).meaning, meaning, "{answer:?}");
        }
        let throttled = rules("[{status: 200, when: \"body.errors[0].code == 'T'\", means: retry}]").expect("rows");
        let answer = |code: &str| {
            let body = Some(json!({"data": {"id": 1}, "errors": [{"code": code}]}));
            PartnerAnswer { status: 200, body, ..PartnerAnswer::default() }
        };
        assert_eq!(read(|| throttled.iter(), &answer("T"), true).meaning, Meaning::Retry);
        assert_eq!(read(|| throttled.iter(), &answer("U"), true).meaning, Meaning::InDoubt);
        let done = PartnerAnswer { body: Some(json!({"data": {"id": 1}})), ..answer("T") };
        assert_eq!(read(|| throttled.iter(), &done, true).meaning, Meaning::Done);
        let refused = PartnerAnswer { status: 422, ..answer("T") };
        assert_eq!(read(|| [].iter(), &refused, true).meaning, Meaning::Failed);
    }

    fn rules(yaml: &str) -> Result<Vec<AnswerRule>, String> {
        serde_saphyr::from_str(yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn a_status_is_a_number_a_range_or_a_list() {
        let rules = rules(
            "[{status: 503, means: retry}, {status: 500..504, means: in_doubt}, {status: [409, 410..411], means: done}]",
        );
        let rules = rules.expect("good rules");
        for (status, rule) in [(503, 0), (502, 1), (410, 2), (409, 2)] {
            assert!(rules[rule].covers(status), "{status}");
        }
        assert!(!rules[1].covers(505) && !rules[2].covers(412));
    }

    #[test]
    fn what_is_no_status_no_condition_or_no_meaning_is_an_error() {
        for bad in [
            "[{status: 99, means: retry}]",
            "[{status: 600, means: retry}]",
            "[{status: 504..500, means: retry}]",
            "[{status: 5xx, means: retry}]",
            "[{status: [], means: retry}]",
            "[{status: 500, means: credentials_rejected}]",
            "[{status: 500, means: maybe}]",
            "[{status: 500}]",
            "[{when: event.id == 1, means: done}]",
            "[{status: 429, means: retry, retry_after: {cookie: a}}]",
        ] {
            assert!(rules(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_delay_is_seconds_or_a_date() {
        const NOW: Timestamp = Timestamp::from_secs(784_111_770);
        for (text, millis) in [
            ("7", 7000),
            (" 120 ", 120_000),
            ("0.65", 650),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 7000),
            ("Sun, 06 Nov 1994 08:49:20 GMT", 0),
        ] {
            assert_eq!(delay(text, NOW), Some(Duration::from_millis(millis)), "{text}");
        }
        for bad in ["", "-1", "soon", "1.5.2", ".", "1e5", "inf"] {
            assert_eq!(delay(bad, NOW), None, "{bad}");
        }
        assert_eq!(delay("99999999999999999999999", NOW), Some(Duration::MAX));
    }
}
