//! Lookups in flow files: how a partner is asked whether a call happened.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::answers::check_pointer;
use super::request::{ContentType, GraphQl, Method, Request};
use super::template::{Body, Path};
use super::{
    AnswerExpression, AnswerPlace, Format, HeaderTemplates, LookedUpCall, PartnerAnswer, QueryTemplates, ResultAt,
};
use crate::base::time::DurationText;
use crate::base::wrong::{Wrong, step};

/// A lookup: asks the partner whether a call happened.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// How long the partner needs until a call can be found. An earlier lookup would take a call that is
    /// under way for absent.
    #[serde(with = "DurationText")]
    pub after: Duration,
    /// The request of the lookup. It only reads.
    #[serde(deserialize_with = "that_reads")]
    #[cfg_attr(feature = "schema", schemars(with = "WrittenLookupRequest"))]
    pub request: Request,
    /// Where the answer says that the call happened: a JSON pointer to a value, or an expression in braces over `status`,
    /// `headers`, `body`, and of the call `sent` (the body that it sends), `key` (our key) and `now` (when it was first
    /// intended).
    pub found: LookupPlace,
    /// Where the results stand in the lookup's answer, if not where they stand in the call's.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "BTreeMap::is_empty"))]
    pub result: BTreeMap<String, LookupPlace>,
}

/// A lookup as an effect writes it. That of a function has only `after`: the function is asked itself.
#[derive(Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLookup {
    /// How long the partner needs until a call can be found. An earlier lookup would take a call that is
    /// under way for absent.
    #[serde(with = "DurationText")]
    after: Duration,
    /// The request of the lookup. It only reads. A function has none.
    #[serde(default, deserialize_with = "that_may_read")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<WrittenLookupRequest>"),
        serde(skip_serializing_if = "Option::is_none")
    )]
    request: Option<Request>,
    /// Where the answer says that the call happened: a JSON pointer to a value, or an expression in braces over `status`,
    /// `headers`, `body` and `sent`, which is the body that the call sends. A function says it by itself.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "Option::is_none"))]
    found: Option<LookupPlace>,
    /// Where the results stand in the lookup's answer, if not where they stand in the call's.
    #[serde(default)]
    #[cfg_attr(feature = "schema", serde(skip_serializing_if = "BTreeMap::is_empty"))]
    result: BTreeMap<String, LookupPlace>,
}

impl WrittenLookup {
    /// The lookup of a call to a partner, if it says how the partner is asked.
    pub(super) fn of_call(self) -> Option<Lookup> {
        let WrittenLookup { after, request, found, result } = self;
        Some(Lookup { after, request: request?, found: found?, result })
    }

    /// When a function may be asked, if nothing is said but that.
    pub(super) fn of_function(self) -> Option<Duration> {
        let bare = self.request.is_none() && self.found.is_none() && self.result.is_empty();
        bare.then_some(self.after)
    }
}

#[cfg(feature = "schema")]
impl WrittenLookup {
    pub(super) fn to_function(after: Duration) -> Self {
        WrittenLookup { after, request: None, found: None, result: BTreeMap::new() }
    }
}

#[cfg(feature = "schema")]
impl From<Lookup> for WrittenLookup {
    fn from(Lookup { after, request, found, result }: Lookup) -> Self {
        WrittenLookup { after, request: Some(request), found: Some(found), result }
    }
}

/// A place in a lookup's answer. Its expression may also read `sent`.
#[derive(Clone, Debug, PartialEq)]
pub struct LookupPlace(pub(super) AnswerPlace);

/// The names that an expression over a lookup's answer may read.
const ROOTS: [&str; 6] = ["status", "headers", "body", "sent", "key", "now"];

/// A lookup's answer could not be read: it has no body that is JSON, or its values are of other kinds than the expression
/// takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadableAnswer;

impl Lookup {
    /// Whether an expression reads the body that the call sends.
    pub fn reads_sent(&self) -> bool {
        [&self.found].into_iter().chain(self.result.values()).any(|place| match &place.0 {
            AnswerPlace::Pointer(_) => false,
            AnswerPlace::Expression(expression) => expression.reads("sent"),
        })
    }

    /// Whether the answer says that the call happened.
    pub fn finds(&self, answer: &PartnerAnswer, call: Option<&LookedUpCall>) -> Result<bool, UnreadableAnswer> {
        match &self.found.0 {
            AnswerPlace::Pointer(pointer) => {
                let body = answer.body.as_ref().ok_or(UnreadableAnswer)?;
                Ok(body.pointer(pointer).is_some_and(|value| !value.is_null()))
            }
            AnswerPlace::Expression(expression) => expression.holds_for(answer, call).map_err(|_| UnreadableAnswer),
        }
    }

    /// The result of this name in the lookup's answer, given where it stands otherwise.
    pub fn pick(
        &self,
        name: &str,
        usual: &ResultAt,
        answer: &PartnerAnswer,
        call: Option<&LookedUpCall>,
    ) -> Option<Value> {
        match self.result.get(name) {
            Some(LookupPlace(at)) => ResultAt { at: at.clone(), optional: usual.optional }.of_lookup(answer, call),
            None => usual.of(answer),
        }
    }

    /// The mistakes in the places of the lookup. `kept` are the results of its effect.
    pub(super) fn check(&self, kept: &BTreeMap<String, ResultAt>) -> Vec<Wrong> {
        let mut wrong: Vec<Wrong> = self.found.check("/found").into_iter().collect();
        for (name, place) in &self.result {
            let at = format!("/result{}", step(name));
            if !kept.contains_key(name) {
                let what = format!("the lookup finds `{name}`, which the effect does not list in its result");
                wrong.push(Wrong::at(&at, what).hint("add it to the effect's `result`"));
            }
            wrong.extend(place.check(&at));
        }
        wrong
    }
}

impl LookupPlace {
    /// The JSON pointer, if it is one.
    pub fn pointer(&self) -> Option<&str> {
        match &self.0 {
            AnswerPlace::Pointer(pointer) => Some(pointer),
            AnswerPlace::Expression(_) => None,
        }
    }

    fn check(&self, at: &str) -> Option<Wrong> {
        check_pointer(at, self.pointer()?)
    }
}

impl TryFrom<String> for LookupPlace {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(LookupPlace(match super::template::expression(&text) {
            Some(inner) => AnswerPlace::Expression(AnswerExpression::over(inner, &ROOTS)?),
            None => AnswerPlace::Pointer(text),
        }))
    }
}

impl<'de> Deserialize<'de> for LookupPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        LookupPlace::try_from(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

/// The HTTP methods that a lookup may have.
#[derive(Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(rename_all = "UPPERCASE")]
enum LookupMethod {
    /// The method GET.
    #[default]
    Get,
    /// The method POST, for partners that are asked by it.
    Post,
}

/// The request of a lookup, as it is written.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
struct WrittenLookupRequest {
    /// The HTTP method: GET, unless it says POST.
    #[serde(default)]
    method: LookupMethod,
    /// The path below the integration's base URL.
    path: Path,
    /// The query: a name and a template each, or a list of them. What is `none` is left out.
    #[serde(default)]
    query: QueryTemplates,
    /// The header fields: a name and a template each. What is `none` is left out.
    #[serde(default)]
    headers: HeaderTemplates,
    /// The body: a tree whose texts are templates.
    #[serde(default)]
    body: Option<Body>,
    /// The form in which the body is sent, if not as the integration says: `json`, `form` or `text`.
    #[serde(default)]
    format: Option<Format>,
    /// The content type of the body, if not that of its format.
    #[serde(default)]
    content_type: Option<ContentType>,
    /// A GraphQL document and its variables, instead of a body.
    #[serde(default)]
    graphql: Option<GraphQl>,
}

fn that_may_read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Request>, D::Error> {
    that_reads(deserializer).map(Some)
}

fn that_reads<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Request, D::Error> {
    let WrittenLookupRequest { method, path, query, headers, body, format, content_type, graphql } =
        WrittenLookupRequest::deserialize(deserializer)?;
    let method = match method {
        LookupMethod::Get => Method::Get,
        LookupMethod::Post => Method::Post,
    };
    Ok(Request { method, path, query, headers, body, format, content_type, graphql })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lookup(more: &str) -> Lookup {
        serde_saphyr::from_str(&format!("{{after: 5s, request: {{path: /m}}, {more}}}")).expect("a lookup")
    }

    fn answer(body: Option<Value>) -> PartnerAnswer {
        PartnerAnswer { status: 200, body, ..PartnerAnswer::default() }
    }

    #[test]
    fn a_pointer_or_an_expression_says_whether_it_happened() {
        let messages = answer(Some(json!({"messages": [{"sid": "SM1", "body": "a"}, {"sid": "SM2", "body": "b"}]})));
        let pointer = lookup("found: /messages/0");
        assert!(!pointer.reads_sent());
        assert_eq!(pointer.finds(&messages, None), Ok(true));
        assert_eq!(pointer.finds(&answer(Some(json!({"messages": []}))), None), Ok(false));
        assert_eq!(pointer.finds(&answer(None), None), Err(UnreadableAnswer));

        let same = "body.messages | selectattr('body', 'eq', sent.Body) | map(attribute='sid') | first";
        let by_text = lookup(&format!("found: \"{{{{ {same} }}}}\", result: {{sid: \"{{{{ {same} }}}}\"}}"));
        assert!(by_text.reads_sent());
        let call = |body: &str| LookedUpCall { sent: Some(json!({"Body": body})), ..LookedUpCall::default() };
        assert_eq!(by_text.finds(&messages, Some(&call("b"))), Ok(true));
        assert_eq!(by_text.finds(&messages, Some(&call("c"))), Ok(false));
        assert_eq!(by_text.finds(&answer(None), Some(&call("b"))), Err(UnreadableAnswer));
        let by_key = lookup("found: \"{{ body.messages | selectattr('sid', 'eq', key) | first }}\"");
        assert!(!by_key.reads_sent());
        let sm2 = LookedUpCall { key: "SM2".into(), ..LookedUpCall::default() };
        assert_eq!(by_key.finds(&messages, Some(&sm2)), Ok(true));
        let usual = ResultAt::from(AnswerPlace::Pointer("/sid".into()));
        assert_eq!(by_text.pick("sid", &usual, &messages, Some(&call("b"))), Some(json!("SM2")));
        assert_eq!(by_text.pick("other", &usual, &answer(Some(json!({"sid": 7}))), None), Some(json!(7)));
    }

    #[test]
    fn a_lookup_reads_and_may_post_a_question() {
        let posted = "{after: 5s, request: {method: POST, path: /search, body: {q: 1}}, found: /id}";
        let posted: Lookup = serde_saphyr::from_str(posted).expect("a lookup");
        assert_eq!(posted.request.method, Method::Post);
        for bad in ["PUT", "DELETE", "get"] {
            let text = format!("{{after: 5s, request: {{method: {bad}, path: /a}}, found: /id}}");
            assert!(serde_saphyr::from_str::<Lookup>(&text).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mistake_is_told_when_the_file_is_read() {
        for bad in ["{{ event.id }}", "{{ body. }}", "{{ snet.Body }}"] {
            assert!(LookupPlace::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        let kept: BTreeMap<String, ResultAt> = [("id".to_owned(), AnswerPlace::Pointer("/id".into()).into())].into();
        assert_eq!(lookup("found: /a, result: {id: /b}").check(&kept), []);
        assert_eq!(lookup("found: a.b, result: {sid: /b}").check(&kept).len(), 2);
    }
}
