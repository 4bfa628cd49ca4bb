use std::time::Duration;

use serde_json::json;

use crate::flows::template::Body;
use crate::flows::{Auth, File, Flows, FormLists, Format, Integration, Meaning, Problems, Var};

const TWILIO: &str = r#"
about: {docs: "Twilio, Message resource", checked: 2026-11, against: openapi}
vars:
  account_sid: {required: true, about: the account}
  region: {default: us1}
  hook: {secret: true}
base_url: https://api.{{ vars.region }}.twilio.com/2010-04-01/Accounts/{{ vars.account_sid }}
auth: bearer
headers: {Revision: "1", X-Kind: plain}
query: {locale: en, limit: 5}
format: {form: {lists: repeated}}
error: {code: /code, message: /message}
timeout: 5s
idempotency_header: ""
rate: 10/s
concurrency: 3
breaker: off
answers: [{status: 500..599, means: in_doubt}]
"#;

fn parse(integrations: &str) -> Result<Flows, Problems> {
    let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
    Flows::parse(&[file("integrations.yaml", integrations), file("catalog/partners/twilio.yaml", TWILIO)])
}

fn sms(integration: &str) -> Integration {
    let flows = parse(&format!("sms: {integration}")).unwrap_or_else(|problems| panic!("{problems}"));
    flows.integration("sms").expect("the integration").clone()
}

#[test]
fn what_the_catalogue_says_is_in_force() {
    let sms = sms("{uses: twilio, vars: {account_sid: AC01}}");
    assert_eq!(sms.base_url, "https://api.us1.twilio.com/2010-04-01/Accounts/AC01");
    assert_eq!((sms.auth.clone(), sms.format), (Auth::Bearer, Format::Form(FormLists::Repeated)));
    assert_eq!((sms.timeout, sms.idempotency_header.as_str()), (Duration::from_secs(5), ""));
    assert_eq!((sms.pressure.concurrency, sms.pressure.breaker), (Some(3), None));
    assert_eq!(sms.vars.secrets().collect::<Vec<_>>(), ["hook"]);
    assert_eq!(sms.vars.get("region"), Some(&Var::Plain(json!("us1"))));
    assert_eq!(sms.about.map(|about| about.checked), Some("2026-11".into()));
    assert!(sms.error.code.is_some());
}

#[test]
fn what_the_integration_says_goes_before_it_field_by_field() {
    let own = r#"{uses: twilio, vars: {account_sid: AC01, region: ie1, sender: "+15550100"}, timeout: 2s, format: json,
        headers: {revision: "2"}, query: {limit: 7}, auth: none, breaker: true, answers: [{status: 503, means: retry}]}"#;
    let sms = sms(own);
    assert_eq!(sms.base_url, "https://api.ie1.twilio.com/2010-04-01/Accounts/AC01");
    assert_eq!((sms.timeout, sms.format, sms.auth.clone()), (Duration::from_secs(2), Format::Json, Auth::None));
    let written = |(name, value): (&str, &Body)| (name.to_owned(), value.written().clone());
    let headers = [("X-Kind".to_owned(), json!("plain")), ("revision".to_owned(), json!("2"))];
    assert_eq!(sms.headers.iter().map(written).collect::<Vec<_>>(), headers);
    let query = [("limit".to_owned(), json!(7)), ("locale".to_owned(), json!("en"))];
    assert_eq!(sms.query.iter().map(written).collect::<Vec<_>>(), query);
    assert!(sms.pressure.breaker.is_some());
    let means: Vec<Meaning> = sms.answers.iter().map(|row| row.means).collect();
    assert_eq!(means, [Meaning::Retry, Meaning::InDoubt], "its own rows come first");
}

/// A secret that the catalogue knows as one must not stand in a file.
#[test]
fn a_mistake_is_told_in_the_file_where_it_stands() {
    let places = |integrations: &str| -> Vec<String> {
        let problems = parse(integrations).err().map(|problems| problems.0).unwrap_or_default();
        problems.into_iter().map(|problem| format!("{}:{}", problem.file, problem.place.line)).collect()
    };
    let good = "  uses: twilio\n  vars: {account_sid: AC01";
    assert_eq!(places(&format!("sms:\n{good}}}\n")), Vec::<String>::new());
    assert_eq!(places(&format!("sms:\n{good}, hook: abc}}\n")), ["integrations.yaml:3"]);
    assert_eq!(places(&format!("sms:\n{good}, region: a/b}}\n")), ["catalog/partners/twilio.yaml:7"]);
    assert_eq!(places(&format!("sms:\n{good}}}\n  timeout: 0s\n")), ["integrations.yaml:4"]);
    assert_eq!(places(&format!("sms:\n{good}}}\n  base_url: http://a.example.com\n")), ["integrations.yaml:4"]);
    let twice = format!("sms:\n{good}, region: a/b}}\nother:\n{good}, region: a/b}}\n");
    assert_eq!(places(&twice), ["catalog/partners/twilio.yaml:7"], "one mistake is told once");
    assert_eq!(places("sms: {uses: twilio}\n"), ["integrations.yaml:1"]);
}
