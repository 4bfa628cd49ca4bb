//! Expressions over a partner's answer: `body.ok == false`, `headers['x-error'] is defined`.

use std::collections::BTreeMap;

use minijinja::value::{Serde, Value as Jinja};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::PartnerAnswer;
use crate::base::suggest::suggest;
use crate::flows::template::{expression, lenient, lenient_expression, unknown_names};

/// The names that an expression over an answer may read.
const ROOTS: [&str; 3] = ["status", "headers", "body"];

/// An expression over a partner's answer: its `status`, its `headers` under lower-case names, its `body`.
///
/// What an answer does not have is undefined, and undefined is not true and equals nothing: whether a field is there is
/// a fact about an answer that was read, unlike in a request, where a missing value is a mistake.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(try_from = "String")]
pub struct AnswerExpression(String);

/// An expression could not be evaluated: it reads the body, and there is none that could be read, or its values are of
/// other kinds than it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::flows) struct NotEvaluated;

impl AnswerExpression {
    /// The expression, as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the expression is true of an answer.
    pub(super) fn holds(&self, answer: &PartnerAnswer) -> Result<bool, NotEvaluated> {
        self.holds_for(answer, None)
    }

    /// Whether the expression is true of the answer to a lookup of this call.
    pub(in crate::flows) fn holds_for(
        &self,
        answer: &PartnerAnswer,
        call: Option<&LookedUpCall>,
    ) -> Result<bool, NotEvaluated> {
        Ok(self.evaluate(answer, call)?.is_true())
    }

    /// The expression's value, if it has one.
    pub(super) fn value(&self, answer: &PartnerAnswer, call: Option<&LookedUpCall>) -> Option<Value> {
        let value = self.evaluate(answer, call).ok().filter(|value| !value.is_undefined() && !value.is_none())?;
        serde_json::to_value(value).ok()
    }

    /// Whether the expression reads the answer's body.
    pub(super) fn reads_body(&self) -> bool {
        self.reads("body")
    }

    /// Whether the expression reads a name.
    pub(in crate::flows) fn reads(&self, name: &str) -> bool {
        let read = lenient_expression(&self.0).map(|expression| expression.undeclared_variables(false));
        read.is_ok_and(|names| names.contains(name))
    }

    fn evaluate(&self, answer: &PartnerAnswer, call: Option<&LookedUpCall>) -> Result<Jinja, NotEvaluated> {
        if answer.body.is_none() && self.reads_body() {
            return Err(NotEvaluated);
        }
        let expression = lenient_expression(&self.0).map_err(|_| NotEvaluated)?;
        let PartnerAnswer { status, headers, body } = answer;
        let values = Answered { status: *status, headers, body: body.as_ref(), call };
        expression.eval(Jinja::from(Serde(values))).map_err(|_| NotEvaluated)
    }

    /// Reads an expression that may name these roots.
    pub(in crate::flows) fn over(inner: &str, roots: &[&str]) -> Result<Self, String> {
        let compiled = lenient().compile_expression(inner).map_err(|error| {
            let why = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
            format!("the expression is malformed: {why}, in `{inner}`")
        })?;
        let strange = compiled.undeclared_variables(false).into_iter().find(|name| !roots.contains(&name.as_str()));
        if let Some(name) = strange {
            let hint = suggest(&name, roots.iter().copied());
            return Err(format!("an expression over an answer knows no `{name}`, in `{inner}`; {hint}"));
        }
        unknown_names(inner).map_err(|why| format!("the expression is malformed: {why}, in `{inner}`"))?;
        Ok(AnswerExpression(inner.to_owned()))
    }
}

/// What an expression reads of an answer.
#[derive(Serialize)]
struct Answered<'a> {
    status: u16,
    headers: &'a BTreeMap<String, String>,
    body: Option<&'a Value>,
    #[serde(flatten)]
    call: Option<&'a LookedUpCall>,
}

/// What an expression over a lookup's answer may read of the call that is looked up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LookedUpCall {
    /// The body that the call sends, if the lookup reads it.
    pub sent: Option<Value>,
    /// Our idempotency key for the call.
    pub key: String,
    /// The moment when the effect was first intended, RFC 3339.
    pub now: String,
}

impl TryFrom<String> for AnswerExpression {
    type Error = String;

    /// Takes an expression with or without the braces of a template.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::over(expression(&text).unwrap_or(&text), &ROOTS)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(body: Option<Value>) -> PartnerAnswer {
        PartnerAnswer { status: 200, headers: [("x-kind".to_owned(), "soft".to_owned())].into(), body }
    }

    fn holds(text: &str, body: Option<Value>) -> Result<bool, NotEvaluated> {
        AnswerExpression::try_from(text.to_owned()).expect("an expression").holds(&answer(body))
    }

    #[test]
    fn it_reads_status_headers_and_body() {
        let body = || Some(json!({"ok": false, "errors": [{"code": "E7"}]}));
        for (text, is) in [
            ("body.ok == false", true),
            ("body.ok", false),
            ("{{ body.errors is defined }}", true),
            ("body.errors[0].code == 'E7' and status == 200", true),
            ("headers['x-kind'] == 'soft'", true),
            ("status >= 300", false),
            ("body.error.code == 'E7'", false),
            ("body.error.code is defined", false),
        ] {
            assert_eq!(holds(text, body()), Ok(is), "{text}");
        }
    }

    #[test]
    fn what_reads_a_body_that_nobody_could_read_is_not_evaluated() {
        assert_eq!(holds("body.ok == false", None), Err(NotEvaluated));
        assert_eq!(holds("status == 200", None), Ok(true));
        assert_eq!(holds("status == 200 or body.ok", None), Err(NotEvaluated));
        assert_eq!(holds("body.total + 1 > 2", Some(json!({"total": "many"}))), Err(NotEvaluated));
        assert_eq!(holds("body.ok", Some(Value::Null)), Ok(false), "JSON's null is a body");
    }

    #[test]
    fn a_value_is_taken_from_a_text() {
        let body = json!({"message": "Contact already exists. Existing ID: 51"});
        let id = AnswerExpression::try_from("{{ body.message | split('Existing ID: ') | last }}".to_owned());
        assert_eq!(id.expect("an expression").value(&answer(Some(body)), None), Some(json!("51")));
        let none = AnswerExpression::try_from("body.id".to_owned()).expect("an expression");
        assert_eq!(none.value(&answer(Some(json!({"id": null}))), None), None);
        assert_eq!(none.value(&answer(None), None), None);
    }

    #[test]
    fn a_mistake_is_told_when_the_file_is_read() {
        for bad in ["body.", "event.id == 1", "body.ok | lowwer == 'x'", "body is odder", "boddy.ok"] {
            assert!(AnswerExpression::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
