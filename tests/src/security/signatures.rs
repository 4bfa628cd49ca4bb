//! Replays, downgrades and mix-ups of signatures, through the whole intake, for every scheme.

use std::time::Duration;

use serde_json::json;
use shared::arrival::signature::{Secret, sign};
use shared::base::machine::Clock;
use shared::flows::{Flows, Scheme};

use crate::fixtures::{files, lead};
use crate::memory::{EVENT, HttpRequest, World};

const SCHEMES: [&str; 6] = ["standard-webhooks", "stripe", "github", "shopify", "slack", "custom"];

const CUSTOM: &str = "{hmac: {header: X-Sig, algorithm: sha256, encoding: hex, timestamp: {header: X-Time, signed: '{timestamp}.{body}'}}}";

/// A system with a source of each scheme, all of which may send leads, each with its own secret.
fn world() -> World {
    let mut files = files();
    let lead_routing = files[2].text.clone();
    for scheme in SCHEMES {
        let signs = if scheme == "custom" { CUSTOM } else { scheme };
        files[0].text += &format!("{scheme}: {{scheme: {signs}, max_body: 64KiB, rate: 100/s, type_at: type}}\n");
        let name = format!("{scheme}-leads");
        let text = lead_routing.replace("name: lead-routing", &format!("name: {name}"));
        let text = text.replace("source: web-forms", &format!("source: {scheme}"));
        files.push(shared::flows::File { path: format!("flows/{name}.yaml"), text });
    }
    let world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    for scheme in SCHEMES {
        world.secrets.put(&format!("sources/{scheme}"), secret(scheme).expose());
    }
    world
}

/// Each source's own. All have the form that one of the schemes demands.
fn secret(scheme: &str) -> Secret {
    use base64::Engine as _;
    Secret::new(format!("whsec_{}", base64::engine::general_purpose::STANDARD.encode(scheme)))
}

fn scheme_of(world: &World, name: &str) -> Scheme {
    world.intake.flows.source(name).expect("it is configured").scheme.clone()
}

/// A lead as the sender of this scheme signs it, `skew` seconds off, addressed to its own source.
fn genuine(world: &World, scheme: &str, secret: &Secret, skew: i64) -> HttpRequest {
    let body = lead().to_string();
    let at = world.clock.now().secs() + skew;
    let headers = sign(&scheme_of(world, scheme), secret, "msg_1", at, body.as_bytes()).expect("a good secret");
    let bare =
        HttpRequest { headers: vec![("content-type".into(), "application/json".into())], ..HttpRequest::at(b"", 0) };
    let bare = HttpRequest { body: json!(body), ..bare }.to(EVENT, "source", scheme);
    headers.iter().fold(bare, |request, (name, value)| request.with(&name.to_lowercase(), value))
}

fn own(world: &World, scheme: &str) -> HttpRequest {
    genuine(world, scheme, &secret(scheme), 0)
}

async fn status(world: &World, request: HttpRequest) -> i64 {
    request.send(world).await.status
}

/// With a part of every header's text changed, wherever it stands.
fn rewritten(mut request: HttpRequest, from: &str, to: &str) -> HttpRequest {
    request.headers.iter_mut().for_each(|(_, value)| *value = value.replace(from, to));
    request
}

#[tokio::test]
async fn every_scheme_accepts_its_own_sender() {
    let world = world();
    for scheme in SCHEMES {
        assert_eq!(status(&world, own(&world, scheme)).await, 202, "{scheme}");
    }
}

#[tokio::test]
async fn a_delivery_of_another_time_is_refused_where_the_time_is_signed() {
    let world = world();
    for scheme in SCHEMES {
        let signs_time = scheme_of(&world, scheme).signs_time();
        for skew in [-301, 301, -86_400, 86_400] {
            let request = genuine(&world, scheme, &secret(scheme), skew);
            assert_eq!(status(&world, request).await, if signs_time { 401 } else { 202 }, "{scheme}: {skew} s");
        }
    }
}

/// Inside the tolerance, and where no time is signed, the key stands between a replay and its effects.
#[tokio::test]
async fn a_captured_delivery_runs_its_effects_once() {
    let world = world();
    for (number, scheme) in SCHEMES.into_iter().enumerate() {
        let captured = own(&world, scheme);
        for _ in 0..5 {
            assert_eq!(status(&world, captured.clone()).await, 202, "{scheme}");
            world.drain().await;
            world.clock.advance(Duration::from_secs(1));
        }
        assert_eq!(world.partners.calls().len(), number + 1, "{scheme}");
    }
}

#[tokio::test]
async fn a_signature_for_one_source_proves_nothing_to_another() {
    let world = world();
    for from in SCHEMES {
        for to in SCHEMES.into_iter().filter(|to| *to != from) {
            let stolen = own(&world, from).to(EVENT, "source", to);
            assert_eq!(status(&world, stolen).await, 401, "{from} to {to}");
            let signed_like_it = genuine(&world, to, &secret(from), 0);
            assert_eq!(status(&world, signed_like_it).await, 401, "{from}'s secret in {to}'s scheme");
        }
    }
    assert_eq!((world.ledger.writes(), world.events.depth()), (0, 0));
}

/// Two sources under one secret: the headers of one scheme are still nothing to another.
#[tokio::test]
async fn one_secret_in_two_schemes_does_not_mix_them_up() {
    let world = world();
    for from in SCHEMES {
        for to in SCHEMES.into_iter().filter(|to| *to != from) {
            let shared = genuine(&world, from, &secret(to), 0).to(EVENT, "source", to);
            assert_eq!(status(&world, shared).await, 401, "{from} to {to}");
        }
    }
}

#[tokio::test]
async fn a_signature_is_not_downgraded() {
    let world = world();
    for (scheme, from, to) in [
        ("stripe", "v1=", "v0="),
        ("stripe", "v1=", "v2="),
        ("stripe", "v1=", ""),
        ("standard-webhooks", "v1,", "v0,"),
        ("standard-webhooks", "v1,", "v1a,"),
        ("standard-webhooks", "v1,", ""),
        ("slack", "v0=", "v1="),
        ("slack", "v0=", ""),
        ("github", "sha256=", "sha1="),
        ("github", "sha256=", ""),
    ] {
        let request = own(&world, scheme);
        let downgraded = rewritten(request.clone(), from, to);
        assert_ne!(request.headers, downgraded.headers, "{scheme} has {from}");
        assert_eq!(status(&world, downgraded).await, 401, "{scheme}: {from} to {to}");
    }
    let github = own(&world, "github");
    let newest = github.headers.iter().find(|(name, _)| name == "x-hub-signature-256").expect("a signature").1.clone();
    let older = github.without("x-hub-signature-256").with("x-hub-signature", &newest.replace("256", "1"));
    assert_eq!(status(&world, older).await, 401, "SHA-1 is never read");
    assert_eq!((world.ledger.writes(), world.events.depth()), (0, 0));
}

#[tokio::test]
async fn among_several_signatures_one_must_be_good() {
    let world = world();
    for (scheme, header, between, bad) in
        [("standard-webhooks", "webhook-signature", " ", "v1,AAAA"), ("stripe", "stripe-signature", ",", "v1=00")]
    {
        let request = own(&world, scheme);
        let good = request.headers.iter().find(|(name, _)| name == header).expect("a signature").1.clone();
        let list = |count: usize| vec![bad; count].join(between);
        let with = |value: String| request.clone().with(header, &value);
        assert_eq!(status(&world, with(format!("{good}{between}{bad}"))).await, 202, "{scheme}: a rotation");
        assert_eq!(status(&world, with(list(3))).await, 401, "{scheme}: none is good");
        assert_eq!(status(&world, with(format!("{good}{between}{}", list(16)))).await, 401, "{scheme}: too many");
    }
}

/// API Gateway joins a header that came twice with a comma. Whoever prepends a time or an id of its own
/// must not be heard beside the signed one.
#[tokio::test]
async fn a_header_that_came_twice_is_never_half_believed() {
    let world = world();
    for scheme in SCHEMES {
        let request = own(&world, scheme);
        for (name, value) in request.headers.clone().into_iter().filter(|(name, _)| name != "content-type") {
            for twice in [format!("{value},{value}"), format!("1,{value}"), format!("{value},1")] {
                assert_eq!(status(&world, request.clone().with(&name, &twice)).await, 401, "{scheme}: {name}: {twice}");
            }
        }
    }
}

/// A second id beside the signed one would make two events of one delivery.
#[tokio::test]
async fn the_older_names_of_a_header_do_not_speak_beside_the_newer() {
    let world = World::new();
    let body = lead().to_string();
    let request = HttpRequest::of(&world, body.as_bytes());
    let first = request.clone().send(&world).await;
    let again = request.with("svix-id", "msg_2").with("svix-timestamp", "0").send(&world).await;
    assert_eq!((first.status, again.status), (202, 202));
    assert_eq!((&again.body["id"], again.header("idempotent-replayed")), (&first.body["id"], Some("true")));
}
