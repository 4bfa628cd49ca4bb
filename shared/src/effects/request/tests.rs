use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::arrival::key::Names;
use crate::base::time::Timestamp;
use crate::base::trace::{SpanId, Trace};
use crate::flows::{Action, File, Flows, Problems};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

const FLOW: &str = r#"
name: leads
version: 1
on: {source: forms, type: lead}
schema: {type: object, required: [id], properties: {id: {type: string}, v: {properties: {a: {}, b: {}, c: {}, ids: {}, q: {}, t: {}}}}}
key: {version: 1, fields: [id]}
order_by: id
ttl: 24h
retry: {strategy: exponential, base: 1s, max_delay: 10s, jitter: full, max_attempts: 3}
effects:
  - id: call
    integration: crm
"#;

const CRM: &str = "{base_url: https://crm.example.com, timeout: 3s, ";

fn flows(integration: &str, effect: &str) -> Flows {
    parse(integration, effect).unwrap_or_else(|problems| panic!("{problems}"))
}

fn parse(integration: &str, effect: &str) -> Result<Flows, Problems> {
    let file = |path: &str, text: String| File { path: path.into(), text };
    let files = [
        file("sources.yaml", "forms: {scheme: standard-webhooks, max_body: 64KiB, rate: 1/s, type_at: type}".into()),
        file("integrations.yaml", format!("crm: {CRM}{integration}}}")),
        file("flows/leads.yaml", format!("{FLOW}{effect}")),
    ];
    Flows::parse(&files)
}

struct Sent {
    flows: Flows,
    secrets: SecretVars,
}

impl Sent {
    fn new(integration: &str, effect: &str) -> Self {
        Sent { flows: flows(integration, effect), secrets: SecretVars::new() }
    }

    fn request(&self, v: &Value) -> Result<PartnerRequest, TemplateError> {
        self.made(v, |parts| parts.request())
    }

    fn made<T>(&self, v: &Value, make: impl FnOnce(RequestParts<'_>) -> T) -> T {
        let flow = self.flows.flow("leads").expect("the flow");
        let payload = json!({"id": "e1", "v": v});
        let event = Event::new(flow, 1, payload, Names::default(), NOW, Trace::start(1, 2, 3)).expect("a key");
        let (effect, row) = (&flow.effects[0], Row::admitted(&event, NOW));
        let Action::Call(call) = &effect.action else { panic!("it calls a partner") };
        let integration = self.flows.partner_of(effect).expect("a partner");
        let (credentials, secret_vars) = (Credentials::None, self.secrets.clone());
        make(RequestParts {
            effect,
            call,
            integration,
            event: &event,
            row: &row,
            span: SpanId::new(1),
            credentials,
            secret_vars,
        })
    }
}

fn header<'r>(request: &'r PartnerRequest, name: &str) -> Option<&'r str> {
    request.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

#[test]
fn a_query_is_encoded_and_what_is_none_is_left_out() {
    let sent = Sent::new(
        "query: {locale: en, limit: 5}",
        r#"    request: {method: POST, path: "/a?b={{ event.v.b }}", query: {limit: 7, q: "{{ event.v.q | default(none) }}",
        tag: [x, "{{ event.v.t }}"], ids: "{{ event.v.ids }}", o: "{{ omit }}"}}"#,
    );
    let request =
        sent.request(&json!({"b": "1&2", "q": "a=b c", "t": true, "ids": [1, null, "#"]})).expect("it renders");
    assert_eq!(request.path, "/a?b=1%262&locale=en&ids=1&ids=%23&limit=7&q=a%3Db%20c&tag=x&tag=true");
    let without = sent.request(&json!({"b": "1", "t": 1.5, "ids": []})).expect("it renders");
    assert_eq!(without.path, "/a?b=1&locale=en&limit=7&tag=x&tag=1.5");
    assert!(sent.request(&json!({"b": "1", "t": {"c": 1}, "ids": []})).is_err(), "a mapping has no place in a query");
}

#[test]
fn headers_are_the_integrations_and_the_requests_own() {
    let sent = Sent::new(
        "vars: {shop: s1}, headers: {Revision: '2024', X-Shop: \"{{ vars.shop }}\", X-Not: \"{{ none }}\"}",
        r#"    request: {method: POST, path: /a, headers: {revision: "2025", X-V: "{{ event.v }}", X-N: 7}}"#,
    );
    let request = sent.request(&json!("Zoë")).expect("it renders");
    let own: Vec<(&str, &str)> = request
        .headers
        .iter()
        .filter(|(name, _)| name != "traceparent")
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    let key = header(&request, "Idempotency-Key").expect("a key");
    let expected = [("Idempotency-Key", key), ("X-Shop", "s1"), ("X-N", "7"), ("X-V", "Zoë"), ("revision", "2025")];
    assert_eq!(own, expected);
    for bad in ["a\r\nX-Evil: 1", "a\nb", "\0", "a\u{7f}", "\u{85}"] {
        assert!(sent.request(&json!(bad)).is_err(), "{bad:?}");
    }
    assert!(sent.request(&json!(["a"])).is_err());
    assert_eq!(header(&sent.request(&json!(null)).expect("it renders"), "X-V"), None, "none is left out");
}

#[test]
fn a_body_is_sent_in_its_format() {
    let body = r#"body: {a: "{{ event.v.a }}", list: [1, "{{ event.v.b }}"], gone: "{{ event.v.c | default(omit) }}"}"#;
    let v = json!({"a": "x y", "b": true});
    for (integration, own, kind, text) in [
        ("", "", "application/json", r#"{"a":"x y","list":[1,true]}"#),
        ("", ", content_type: application/vnd.api+json", "application/vnd.api+json", r#"{"a":"x y","list":[1,true]}"#),
        ("format: form", "", "application/x-www-form-urlencoded", "a=x%20y&list%5B0%5D=1&list%5B1%5D=true"),
        (
            "format: form",
            ", format: {form: {lists: repeated}}",
            "application/x-www-form-urlencoded",
            "a=x%20y&list=1&list=true",
        ),
        ("format: form", ", format: json", "application/json", r#"{"a":"x y","list":[1,true]}"#),
    ] {
        let sent = Sent::new(integration, &format!("    request: {{method: POST, path: /a, {body}{own}}}"));
        let sent = sent.request(&v).expect("it renders").body.expect("a body");
        assert_eq!((&*sent.content_type, &*sent.text()), (kind, text), "{integration} {own}");
    }
    let text = Sent::new("", r#"    request: {method: PUT, path: /a, format: text, body: "Hi {{ event.v }}"}"#);
    let text = text.request(&json!("Ada")).expect("it renders").body.expect("a body");
    assert_eq!((&*text.content_type, &*text.text()), ("text/plain; charset=utf-8", "Hi Ada"));
    let omitted = Sent::new("", r#"    request: {method: PUT, path: /a, body: "{{ event.v | default(omit, true) }}"}"#);
    assert_eq!(omitted.request(&json!("")).expect("it renders").body, None);
}

#[test]
fn a_request_reads_vars_with_and_key() {
    let sent = Sent::new(
        "idempotency_header: '', vars: {list: L1}",
        r#"    with: {id: "{{ event.v | lower }}-{{ vars.list }}"}
    guarantee: native
    request: {method: POST, path: "/lists/{{ vars.list }}/{{ with.id }}", body: {key: "{{ key }}", all: "{{ with }}"}}"#,
    );
    let request = sent.request(&json!("ABC")).expect("it renders");
    assert_eq!(request.path, "/lists/L1/abc-L1");
    let body = request.json().expect("JSON");
    assert_eq!(body["all"], json!({"id": "abc-L1"}));
    assert!(body["key"].as_str().expect("a key").ends_with("/call"), "{body}");
}

#[test]
fn a_secret_variable_is_in_the_path_the_query_and_the_headers_and_nowhere_else() {
    let mut sent = Sent::new(
        "vars: {hook: {secret: true}}, query: {k: \"{{ vars.hook }}\"}",
        r#"    request: {method: POST, path: "/{{ vars.hook }}", headers: {X-K: "k {{ vars.hook }}"}, body: {a: 1}}"#,
    );
    assert!(sent.request(&json!(1)).is_err(), "without its secret there is no request");
    sent.secrets.insert("hook".into(), Secret::new("s3cr3t/x"));
    let request = sent.request(&json!(1)).expect("it renders");
    assert_eq!(request.path, "/s3cr3t%2Fx?k=s3cr3t%2Fx");
    assert_eq!(header(&request, "X-K"), Some("k s3cr3t/x"));
    assert!(!format!("{request:?}").contains("s3cr3t"), "{request:?}");
}

/// A body could be logged, looked up or planned; a path, a query and a header are only sent.
#[test]
fn no_expression_takes_a_secret_into_a_body() {
    for read in ["vars.hook", "vars['hook']", "vars[vars.name]", "vars | list"] {
        for place in ["body: {a: X}", "format: text, body: X", "graphql: {query: q, variables: {a: X}}"] {
            let place = place.replace('X', &format!("\"{{{{ {read} }}}}\""));
            let effect = format!("    request: {{method: POST, path: /a, {place}}}");
            let problems = parse("vars: {hook: {secret: true}, name: hook}", &effect).expect_err(&effect);
            assert!(problems.to_string().contains("has no place here"), "{problems}");
        }
    }
}

#[test]
fn a_lookup_sends_the_same_kind_of_request() {
    let sent = Sent::new(
        "format: form",
        r#"    request: {method: POST, path: /messages, body: {To: "{{ event.v }}"}}
    guarantee: lookup
    lookup: {after: 5s, request: {method: POST, path: /search, query: {limit: 1}, body: {to: "{{ event.v }}"}, format: json},
      found: "{{ body.messages | selectattr('to', 'eq', sent.To) | first is defined }}"}"#,
    );
    let flow = sent.flows.flow("leads").expect("the flow");
    let lookup = flow.effects[0].lookup.as_ref().expect("a lookup");
    let request = sent.made(&json!("+1"), |parts| parts.lookup(lookup)).expect("it renders");
    assert_eq!((request.method, request.path.as_str()), ("POST", "/search?limit=1"));
    assert_eq!(request.json(), Some(json!({"to": "+1"})));
    assert_eq!(header(&request, "Idempotency-Key"), None);
    let read = sent.made(&json!("+1"), |parts| parts.looked_up(lookup)).expect("it renders");
    assert_eq!(read.sent, Some(json!({"To": "+1"})));
    assert!(read.key.contains('/') && !read.now.is_empty(), "{read:?}");
}

#[test]
fn a_question_has_the_fields_of_every_request() {
    let sent = Sent::new("query: {a: 1}, headers: {X-F: \"{{ flow.name }}\"}", "    request: {method: POST, path: /a}");
    let request = sent.request(&json!(1)).expect("it renders");
    let plain = PartnerRequest { path: "/q?b=2".into(), headers: Vec::new(), ..request };
    let asked = sent.made(&json!(1), |parts| plain.with_fields_of(parts.integration, parts.event, &SecretVars::new()));
    let asked = asked.expect("it renders");
    assert_eq!((asked.path.as_str(), header(&asked, "X-F")), ("/q?b=2&a=1", Some("leads")));
}

/// What somebody would try who wants out of a value's place, and everything else.
fn hostile() -> impl Strategy<Value = String> {
    let known = ["a&b=c", "x#y", "?z", "\r\nX-Evil: 1", "a[b]", "%26", "+", "..", "{{ 7 * 7 }}", "\u{0}", "é&ü"];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), any::<String>()]
}

fn pairs(query: &str) -> Vec<(String, String)> {
    form_urlencoded::parse(query.as_bytes()).map(|(n, v)| (n.into_owned(), v.into_owned())).collect()
}

proptest! {
    #[test]
    fn no_value_leaves_its_place_in_a_query_a_header_or_a_form(v in hostile()) {
        let sent = Sent::new("format: form", r#"    request: {method: POST, path: /a, query: {q: "{{ event.v }}", r: 1},
            body: {f: "{{ event.v }}", g: ["{{ event.v }}"], h: 2}}"#);
        let request = sent.request(&json!(v)).expect("it renders");
        let (path, query) = request.path.split_once('?').expect("a query");
        prop_assert_eq!(path, "/a");
        prop_assert!(query.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=&%-._~".contains(&byte)));
        prop_assert_eq!(pairs(query), [("q".to_owned(), v.clone()), ("r".into(), "1".into())]);
        let form = request.body.expect("a body");
        let expected = [("f".to_owned(), v.clone()), ("g[0]".into(), v), ("h".into(), "2".into())];
        prop_assert_eq!(pairs(&form.text()), expected);
    }

    #[test]
    fn no_value_ends_a_header(v in hostile()) {
        let sent = Sent::new("", r#"    request: {method: POST, path: /a, headers: {X-V: "v {{ event.v }}"}}"#);
        match sent.request(&json!(v)) {
            Ok(request) => {
                let value = header(&request, "X-V").expect("the header");
                prop_assert_eq!(value, format!("v {v}"));
                prop_assert!(!value.contains(char::is_control));
            }
            Err(error) => {
                prop_assert!(v.contains(char::is_control));
                prop_assert_eq!(error.to_string(), "the header `X-V` has a control character in it");
            }
        }
    }
}
