//! How we prove ourselves to partners: on the wire as each of them asks for it, and nowhere else.

use std::time::Duration;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use replay::{Access, Operation, operate};
use serde_json::{Value, json};
use shared::adapters::machine::{SystemChance, SystemClock};
use shared::adapters::{AwsLcCrypto, HttpPartners};
use shared::arrival::delivery::{Called, Delivery};
use shared::arrival::signature::{Secret, verify};
use shared::base::machine::Clock;
use shared::effects::body::RequestBody;
use shared::effects::credentials::{Credentials, Signing};
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::effects::token::{NoToken, NoTokenReason, TokenAccount, TokenPorts, Tokens};
use shared::flows::{Auth, Flows, Source};
use shared::ledger::State;
use shared::ledger::batch::Filter;
use shared::model::ModelTokens;

use super::echoes::{answers, pages};
use super::mirror::{Mirror, NONSENSE, OnTheWire, json_of};
use crate::fixtures::{files, lead_of};
use crate::memory::{Log, World};

const SECRET: &str = "canary:s3cret/of+the=crm&?#";
const KEY: &str = "whsec_Y2FuYXJ5IG9mIGEgc2lnbmluZyBrZXk=";

/// A secret variable, in a header and in the query of every request.
const HOOK: &str = "canary-of-a-hook";
const FIELDS: &str =
    "vars: {hook: {secret: true}}, headers: {X-Hook: \"{{ vars.hook }}\"}, query: {h: \"{{ vars.hook }}\"}";

const WELL: Mirror = Mirror { status: 200, token_status: 200, token: "canary-access-token" };

fn auth(yaml: &str) -> Auth {
    let value: Value = serde_saphyr::from_str(yaml).expect(yaml);
    serde_json::from_value(value).expect(yaml)
}

fn request(base_url: &str, credentials: Credentials, body: Option<RequestBody>) -> PartnerRequest {
    PartnerRequest {
        method: "POST",
        integration: "crm".into(),
        base_url: base_url.to_owned(),
        path: "/leads?all=no".into(),
        headers: Vec::new(),
        credentials,
        body,
        timeout: Duration::from_secs(10),
    }
}

fn shown(yaml: &str, secret: &str) -> Credentials {
    let signing = Signing { id: "evt/crm".into(), at: SystemClock.now() };
    Credentials::of_secret(&auth(yaml), &Secret::new(secret), signing)
}

/// What a partner gets that is called with this auth, and this body.
async fn on_the_wire(yaml: &str, secret: &str, body: Option<RequestBody>) -> OnTheWire {
    let (partner, mut asked) = WELL.serve().await;
    HttpPartners::new(None).call(request(&partner, shown(yaml, secret), body)).await.expect("an answer");
    asked.recv().await.expect("it was asked")
}

fn some_json() -> Option<RequestBody> {
    Some(RequestBody::of_json(&json!({"email": "ada@example.com"})))
}

fn a_form() -> Option<RequestBody> {
    let content_type = "application/x-www-form-urlencoded".into();
    Some(RequestBody { content_type, bytes: b"To=%2B1555&Body=Hi".to_vec() })
}

#[tokio::test]
async fn a_header_holds_the_secret_as_the_partner_asks_for_it() {
    for (yaml, name, value) in [
        ("bearer", "authorization", format!("Bearer {SECRET}")),
        ("basic", "authorization", format!("Basic {}", STANDARD.encode(SECRET))),
        ("{basic: {user: AC01}}", "authorization", format!("Basic {}", STANDARD.encode(format!("AC01:{SECRET}")))),
        ("{header: {name: X-Shopify-Access-Token}}", "x-shopify-access-token", SECRET.into()),
        (
            "{header: {name: Authorization, prefix: 'Klaviyo-API-Key '}}",
            "authorization",
            format!("Klaviyo-API-Key {SECRET}"),
        ),
    ] {
        let wire = on_the_wire(yaml, SECRET, some_json()).await;
        assert_eq!(wire.header(name), Some(value.as_str()), "{yaml}");
        assert_eq!((wire.target(), json_of(&wire)), ("POST /leads?all=no", json!({"email": "ada@example.com"})));
    }
    let wire = on_the_wire("none", SECRET, some_json()).await;
    assert!(!wire.head.contains("canary") && wire.header("authorization").is_none());
}

#[tokio::test]
async fn a_query_holds_the_secret_encoded() {
    let wire = on_the_wire("{query: {name: api key}}", SECRET, None).await;
    let (path, query) = wire.target().split_once('?').expect("a query");
    let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
    assert_eq!((path, pairs.len()), ("POST /leads", 2));
    assert_eq!((pairs[1].0.as_ref(), pairs[1].1.as_ref()), ("api key", SECRET));
    assert!(!wire.target().contains("&?#"), "nothing of it acts: {}", wire.target());
}

#[tokio::test]
async fn a_body_holds_the_secret_among_its_fields() {
    let wire = on_the_wire("{body: {field: key}}", SECRET, some_json()).await;
    assert_eq!(json_of(&wire), json!({"email": "ada@example.com", "key": SECRET}));
    let wire = on_the_wire("{body: {field: key}}", SECRET, a_form()).await;
    let pairs: Vec<_> = form_urlencoded::parse(&wire.body).into_owned().collect();
    let expected = [("To", "+1555"), ("Body", "Hi"), ("key", SECRET)];
    assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let wire = on_the_wire("{body: {field: key}}", SECRET, None).await;
    assert_eq!((json_of(&wire), wire.header("content-type")), (json!({"key": SECRET}), Some("application/json")));

    let text = RequestBody { content_type: "text/plain".into(), bytes: b"Hi".to_vec() };
    for body in [text, RequestBody::of_json(&json!([1]))] {
        let refused = request("http://127.0.0.1:1", shown("{body: {field: key}}", SECRET), Some(body));
        let refused = HttpPartners::new(None).call(refused).await;
        assert!(matches!(&refused, Err(NoAnswer::NotSent(why)) if !why.contains("canary")), "{refused:?}");
    }
}

/// `tests/src/signatures.rs` shows that the library of Standard Webhooks believes what we sign.
#[tokio::test]
async fn a_signed_request_verifies_over_the_bytes_that_were_sent() {
    let source = json!({"scheme": "standard-webhooks", "max_body": "64KiB", "rate": "10/s", "type_at": "type"});
    let source: Source = serde_json::from_value(source).expect("a source");
    for body in [some_json(), a_form(), None] {
        let wire = on_the_wire("signed", KEY, body).await;
        assert_eq!(wire.header("webhook-id"), Some("evt/crm"));
        let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
        let delivery = |body: Vec<u8>| Delivery {
            source: "us".into(),
            event_type: None,
            headers: names.into_iter().filter_map(|name| Some((name, wire.header(name)?))).collect(),
            body,
            called: Called::default(),
        };
        let genuine = |body| verify(&source, &[Secret::new(KEY)], delivery(body), SystemClock.now()).is_ok();
        assert!(genuine(wire.body.clone()) && !genuine([&wire.body[..], b" "].concat()));
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_sent_is_not_sent_and_not_told() {
    let (partner, mut asked) = WELL.serve().await;
    for (yaml, secret) in
        [("bearer", "canary\r\nX-Admin: 1"), ("{header: {name: X-Key}}", "canary\n"), ("signed", "canary")]
    {
        let refused = HttpPartners::new(None).call(request(&partner, shown(yaml, secret), None)).await;
        assert!(matches!(&refused, Err(NoAnswer::NotSent(why)) if !why.contains("canary")), "{refused:?}");
    }
    assert!(asked.try_recv().is_err());
}

#[tokio::test]
async fn errors_and_debug_output_hide_what_the_wire_carries() {
    let log = Log::capture();
    for yaml in KINDS.iter().map(|(yaml, _)| *yaml).filter(|yaml| auth(yaml).token_grant().is_none()) {
        let secret = if yaml == "signed" { KEY } else { SECRET };
        for nowhere in ["http://127.0.0.1:1", "http://[canary", "nowhere"] {
            let request = request(nowhere, shown(yaml, secret), some_json());
            let debug = format!("{request:?}");
            let error = HttpPartners::new(None).call(request).await.expect_err("nobody is there").to_string();
            for seen in [debug, error, log.text()] {
                assert!(
                    !seen.contains("s3cret") && !seen.contains(&KEY[6..]) && !seen.contains("ada@"),
                    "{yaml}: {seen}"
                );
            }
        }
    }
}

/// The ports of a container, with real time.
fn ports(partners: &HttpPartners) -> TokenPorts<'_> {
    TokenPorts { partners, clock: &SystemClock, sleep: &SystemClock, chance: &SystemChance }
}

async fn token(mirror: Mirror, yaml: &str, secret: &str) -> (Result<Secret, NoToken>, OnTheWire) {
    let (endpoint, mut asked) = mirror.serve().await;
    let partners = HttpPartners::new(Some(endpoint));
    let tokens = Tokens::new(Box::new(ModelTokens::default()), Box::new(AwsLcCrypto));
    let (auth, secret) = (auth(yaml), Secret::new(secret));
    let grant = auth.token_grant().expect("a grant");
    let account = TokenAccount { integration: "crm", grant, secret: &secret, timeout: Duration::from_secs(5) };
    let token = tokens.token(&account, ports(&partners)).await;
    (token, asked.recv().await.expect("it was asked"))
}

const OAUTH2: &str =
    "{oauth2: {token_url: 'https://login.example.com/oauth/token', client_id: 'me:1', scope: 'a b', audience: api}}";
const IN_BODY: &str = "{oauth2: {token_url: 'https://login.example.com/oauth/token', client_id: me, send: body}}";
const JWT: &str =
    "{jwt_bearer: {token_url: 'https://login.example.com/oauth/token', issuer: me, subject: ada, key_id: k1}}";

#[tokio::test]
async fn a_token_end_point_is_asked_below_its_integration_and_followed_nowhere() {
    let (token_given, wire) = token(WELL, OAUTH2, SECRET).await;
    assert_eq!(token_given, Ok(Secret::new(WELL.token)));
    assert_eq!(wire.target(), "POST /crm/_token/oauth/token");
    assert_eq!(wire.header("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(wire.header("accept"), Some("application/json"));
    let pairs: Vec<_> = form_urlencoded::parse(&wire.body).into_owned().collect();
    let expected = [("grant_type", "client_credentials"), ("scope", "a b"), ("audience", "api")];
    assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    // RFC 6749, section 2.3.1: both are encoded as in a form, then joined.
    let pair = wire.header("authorization").and_then(|value| value.strip_prefix("Basic ")).expect("HTTP Basic");
    let pair = String::from_utf8(STANDARD.decode(pair).expect("base64")).expect("text");
    assert_eq!(pair, "me%3A1:canary%3As3cret%2Fof%2Bthe%3Dcrm%26%3F%23");

    for status in [301, 307] {
        let (none, _) = token(Mirror { token_status: status, ..WELL }, OAUTH2, SECRET).await;
        let told = format!("{none:?}");
        let failing = matches!(none, Err(NoToken { why: NoTokenReason::Failing { failures: 1, .. }, .. }));
        assert!(failing && told.contains("answered 30") && !told.contains("canary"), "{told}");
    }
}

#[tokio::test]
async fn a_client_secret_may_go_into_the_body() {
    let (token_given, wire) = token(WELL, IN_BODY, SECRET).await;
    assert!(token_given.is_ok() && wire.header("authorization").is_none());
    let pairs: Vec<_> = form_urlencoded::parse(&wire.body).into_owned().collect();
    assert!(
        pairs.contains(&("client_secret".into(), SECRET.into())) && pairs.contains(&("client_id".into(), "me".into()))
    );
}

/// A private key, made for this run, as PEM.
fn private_key() -> (KeyPair, String) {
    let key = KeyPair::generate(KeySize::Rsa2048).expect("a key");
    let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&key).expect("a key");
    let body = STANDARD.encode(der.as_ref());
    drop(der);
    (key, format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"))
}

#[tokio::test]
async fn an_assertion_is_signed_with_our_key() {
    let (key, pem) = private_key();
    let (token_given, wire) = token(WELL, JWT, &pem).await;
    assert!(token_given.is_ok(), "{token_given:?}");
    let pairs: Vec<_> = form_urlencoded::parse(&wire.body).into_owned().collect();
    let [(_, grant), (_, assertion)] = &pairs[..] else { panic!("{} fields", pairs.len()) };
    assert_eq!(grant, "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let (content, signature) = assertion.rsplit_once('.').expect("a signature");
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref());
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
    public.verify(content.as_bytes(), &signature).expect("our key signed it");
    let claims = content.split_once('.').map(|(_, claims)| URL_SAFE_NO_PAD.decode(claims).expect("base64"));
    let claims: Value = serde_json::from_slice(&claims.expect("claims")).expect("JSON");
    assert_eq!((&claims["iss"], &claims["sub"]), (&json!("me"), &json!("ada")));
    assert_eq!(claims["aud"], "https://login.example.com/oauth/token");
}

/// Every way to authenticate, and whether its secret is a whole text that a partner could quote.
const KINDS: [(&str, &str); 10] = [
    ("none", SECRET),
    ("bearer", SECRET),
    ("basic", SECRET),
    ("{basic: {user: AC01}}", SECRET),
    ("{header: {name: X-Api-Key}}", SECRET),
    ("{query: {name: key}}", SECRET),
    ("{body: {field: key}}", SECRET),
    ("signed", KEY),
    (OAUTH2, SECRET),
    (IN_BODY, SECRET),
];

/// What an event says, in a path, a query, a header and a body.
const TOLD: &str = "Canary of an/event";

/// The texts that nobody may see, in the forms in which they are written. `auth` is a user's name, where there is one.
fn canaries(yaml: &str, secret: &str, more: &[&str]) -> Vec<String> {
    let encoded =
        |text: &str| percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string();
    let mut canaries =
        vec![secret.to_owned(), encoded(secret), STANDARD.encode(secret), "s3cret".into(), WELL.token.into()];
    let user = if yaml.contains("AC01") { "AC01" } else { "me%3A1" };
    canaries
        .extend([format!("{user}:{secret}"), format!("{user}:{}", encoded(secret))].map(|pair| STANDARD.encode(pair)));
    canaries.extend(more.iter().map(|text| (*text).to_owned()));
    canaries
}

/// The signed assertions that a token end-point got, with their signatures alone: whoever has one gets a token.
fn assertions(wire: &[OnTheWire]) -> Vec<String> {
    let bodies = wire.iter().filter(|wire| wire.is_for_a_token()).map(|wire| wire.body.clone());
    let pairs: Vec<(String, String)> =
        bodies.flat_map(|body| form_urlencoded::parse(&body).into_owned().collect::<Vec<_>>()).collect();
    let whole = pairs.into_iter().filter(|(name, _)| name == "assertion").map(|(_, value)| value);
    whole.flat_map(|whole| [whole.rsplit('.').next().unwrap_or_default().to_owned(), whole]).collect()
}

/// The ways in which the event's value is in the body. A key in the body has no place in a text.
fn formats(yaml: &str) -> [&'static str; 3] {
    let text = "format: text\n      body: \"Dear {{ event.data.first_name }}\"";
    let json = "body: {name: \"{{ event.data.first_name }}\", list: [\"{{ event.data.first_name }}\"]}";
    let form = "format: form\n      body: {name: \"{{ event.data.first_name }}\"}";
    [json, form, if yaml.contains("body: {field") { json } else { text }]
}

/// The plain flow, whose request says what the event says in every place.
fn telling(flow: &str, body: &str) -> String {
    let (before, rest) = flow.split_once("      body:\n").expect("a body");
    let (_, after) = rest.split_once("    result:").expect("a result");
    let before =
        before.replace("path: /leads/{{ event.data.event_id }}", "path: \"/leads/{{ event.data.first_name }}\"");
    let told =
        "      query: {n: \"{{ event.data.first_name }}\"}\n      headers: {X-Name: \"{{ event.data.first_name }}\"}";
    format!("{before}{told}\n      {body}\n    result:{after}")
}

fn world_of(yaml: &str, secret: &str, body: &str, endpoint: String) -> World {
    let mut files = files();
    files[2].text = telling(&files[2].text, body);
    files[1].text = format!("crm: {{base_url: https://api.crm.example.com, timeout: 3s, auth: {yaml}, {FIELDS}}}");
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let mut world = World::with(flows);
    world.processor.partners = Box::new(HttpPartners::new(Some(endpoint)));
    world.secrets.remove("integrations/crm");
    world.secrets.put("integrations/crm", secret);
    world.secrets.put("integrations/crm/vars/hook", HOOK);
    world
}

/// Everything that is stored, logged, counted, sent or shown of an event; and the same without what carries the event.
async fn seen(world: &World, log: &Log) -> (String, String) {
    world.park().await;
    let rows = serde_json::to_string(&world.ledger.rows()).expect("JSON");
    let stored = format!("{rows} {:?} {:?} {:?}", world.tokens.items(), world.metrics, world.processor.flows);
    let queues = format!("{:?} {:?} {:?}", world.events, world.dead_letters, world.secrets);
    let list = Operation::List { limit: 10, only: Filter::default() };
    let listed = operate(&world.replay, list).await.expect("a list");
    let read = pages(world, Access::Read).await;
    let operated = pages(world, Access::Operate).await;
    let told = format!("{stored} {listed} {read} {operated} {} {}", answers(world).await, log.text());
    (format!("{queues} {told}"), told)
}

/// A partner that quotes every request in every part of its answer, for each way to authenticate, and for good and bad
/// answers of the API and of the token end-point.
#[tokio::test]
async fn no_secret_of_any_kind_is_seen_anywhere() {
    let (_, pem) = private_key();
    let body_of_key: String = pem.lines().nth(1).expect("the key").to_owned();
    let kinds = KINDS.into_iter().chain([(JWT, pem.as_str())]);
    for (yaml, secret) in kinds {
        let bad = [(400, 200), (401, 200), (500, 200), (200, 400), (200, 500), (200, 302)];
        let bad = bad.map(|(status, token_status)| Mirror { status, token_status, ..WELL });
        let nonsense = Mirror { token: NONSENSE, ..WELL };
        let mirrors =
            [WELL, Mirror { status: 422, ..WELL }, Mirror { status: 503, ..WELL }, nonsense].into_iter().chain(bad);
        for (mirror, body) in mirrors.zip(formats(yaml).into_iter().cycle()) {
            let Mirror { status, token_status, token } = mirror;
            let log = Log::capture();
            let (endpoint, mut asked) = mirror.serve().await;
            let world = world_of(yaml, secret, body, endpoint);
            let mut lead = lead_of("evt_1", "ada@example.com");
            lead["data"]["first_name"] = json!(TOLD);
            let id = world.post(&lead).await.expect("a good lead").id;
            for _ in 0..12 {
                world.poll().await;
                world.wake().await;
                world.clock.advance(Duration::from_secs(45));
            }
            let takes_token = auth(yaml).token_grant().is_some();
            let wire: Vec<OnTheWire> = std::iter::from_fn(|| asked.try_recv().ok()).collect();
            assert!(!wire.is_empty() && wire.iter().any(OnTheWire::is_for_a_token) == takes_token, "{yaml}");
            let api = wire.iter().find(|wire| !wire.is_for_a_token());
            assert!(api.is_none_or(|wire| wire.header("x-hook") == Some(HOOK) && wire.target().contains(HOOK)));
            assert!(api.is_none_or(|wire| wire.header("x-name") == Some(TOLD) && wire.target().contains("an%2Fevent")));
            let done = world.row(&id).await.state == State::Succeeded;
            assert!(!done || status == 200, "{yaml} {status} {token_status}");
            assert!(!takes_token || token != NONSENSE || !done, "{yaml}: nonsense is no token");
            let signed = assertions(&wire);
            assert_eq!(signed.is_empty(), yaml != JWT, "{yaml}");
            let (seen, told) = seen(&world, &log).await;
            for canary in canaries(yaml, secret, &[&body_of_key[..40], &KEY[6..], HOOK]).into_iter().chain(signed) {
                assert!(
                    canary.is_empty() || !seen.contains(&canary),
                    "{yaml} {status} {token_status}: {canary} in {seen}"
                );
            }
            for canary in [TOLD, "Canary%20of", "Canary+of", &STANDARD.encode(TOLD)] {
                assert!(!told.contains(canary), "{yaml} {status} {token_status}: {canary} in {told}");
            }
        }
    }
}
