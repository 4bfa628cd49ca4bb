//! Secrets are where they are needed, for as long, and nowhere else.

use std::collections::BTreeSet;

use replay::{Operation, operate};
use shared::arrival::signature::Secret;
use shared::base::machine::Clock;
use shared::effects::credentials::Credentials;
use shared::ledger::batch::Filter;
use shared::model::Script;

use super::sources;
use crate::fixtures::{lead, root, shown};
use crate::memory::{HttpRequest, Log, RECEIPT, RECEIPTS_TOKEN, SECRET, World};
use crate::template::Template;

/// A variable may say where the secrets are, and never one of them.
#[test]
fn no_environment_variable_holds_a_secret() {
    let template = Template::read();
    let functions = template.resources("AWS::Serverless::Function");
    let own = functions.iter().map(|(_, function)| &function["Properties"]["Environment"]["Variables"]);
    let all = own.chain([template.at("/Globals/Function/Environment/Variables")]);
    for (name, value) in all.flat_map(|variables| variables.as_object().expect("variables")) {
        let telling =
            ["SECRET", "TOKEN", "PASSWORD", "KEY", "CREDENTIAL", "AUTH"].iter().any(|word| name.contains(word));
        assert!(!telling || name == "SECRETS_PREFIX", "{name}");
        assert!(value.as_str().is_none_or(|value| !value.contains("resolve:")), "{name}: {value}");
    }
    let text = std::fs::read_to_string(root().join("infra/template.yaml")).expect("the template");
    assert!(!text.contains("{{resolve:"), "CloudFormation would write the secret into the stack");
    assert!(!text.contains("NoEcho"), "a secret as a parameter ends up in a shell's history");
}

/// Nobody reads the environment but the wiring, so nobody else could find a secret there.
#[test]
fn only_the_wiring_reads_the_environment() {
    let readers: BTreeSet<String> = ["shared/src", "functions"]
        .into_iter()
        .flat_map(sources)
        .filter(|(_, text)| text.contains("env::var"))
        .map(|(path, _)| shown(&path))
        .collect();
    assert_eq!(readers, ["shared/src/adapters/machine/environment.rs".to_owned()].into());
}

/// What takes a secret's text out of its wrapping is on this list, and compares in constant time or not at all.
#[test]
fn secrets_are_exposed_in_few_places_and_compared_in_constant_time() {
    let mut exposing = BTreeSet::new();
    for (path, text) in ["shared/src", "functions"].into_iter().flat_map(sources) {
        let file = shown(&path);
        let code = text.split("\nmod tests {").next().unwrap_or_default();
        for line in code.lines().filter(|line| line.contains(".expose()")) {
            let careless =
                ["==", "!=", ".eq(", ".cmp(", ".contains(", "starts_with"].iter().any(|op| line.contains(op));
            assert!(!careless, "{file}: {line}");
            exposing.insert(file.clone());
        }
    }
    let expected = [
        "functions/intake/src/secret_match.rs",
        "shared/src/adapters/authorize.rs",
        "shared/src/adapters/token_crypto.rs",
        "shared/src/arrival/signature/ecdsa.rs",
        "shared/src/arrival/signature/mod.rs",
        "shared/src/arrival/signature/token.rs",
        "shared/src/effects/clue/masked.rs",
        "shared/src/effects/credentials.rs",
        "shared/src/effects/request.rs",
        "shared/src/effects/token/fetch.rs",
        "shared/src/effects/token/jwt.rs",
        "shared/src/effects/token/seal.rs",
        "shared/src/model/token_crypto.rs",
    ];
    assert_eq!(exposing, expected.map(str::to_owned).into());
}

#[test]
fn a_secret_hides_in_whatever_is_shown() {
    let world = World::new();
    let request = shared::effects::request::PartnerRequest {
        method: "GET",
        integration: "crm".into(),
        base_url: String::new(),
        path: String::new(),
        headers: Vec::new(),
        credentials: Credentials::bearer(&Secret::new("canary")),
        body: None,
        timeout: std::time::Duration::ZERO,
    };
    for shown in [format!("{request:?}"), format!("{:?}", world.secrets), format!("{:#?}", [Secret::new("canary")])] {
        assert!(!shown.contains("canary") && !shown.contains(SECRET) && shown.contains("Secret(…)"), "{shown}");
    }
}

const TOKEN: &str = "canary-integration-token";
const OLD_SECRET: &str = "whsec_Y2FuYXJ5IG9mIGFuIG9sZCBzZWNyZXQ=";

/// Through the intake, the processor, the dead letters and the replay, with everything going wrong once.
#[tokio::test]
async fn no_secret_is_logged_stored_or_answered_on_the_whole_way() {
    let log = Log::capture();
    let world = World::new();
    world.secrets.put("sources/web-forms", OLD_SECRET);
    world.secrets.put("integrations/crm", TOKEN);
    let mut seen = String::new();
    let body = lead().to_string();
    let bearer = format!("Bearer {RECEIPTS_TOKEN}");
    let good = || HttpRequest::of(&world, body.as_bytes());
    for request in [
        good(),
        good().with("authorization", &bearer),
        good().with("webhook-signature", SECRET),
        good().to(RECEIPT, "id", "0").with("authorization", &bearer),
        good().to(RECEIPT, "id", "0").with("authorization", &format!("Bearer web-forms.{SECRET}")),
    ] {
        seen += &format!("{:?}", request.send(&world).await);
    }

    world.partners.script([Script::Status(400), Script::Hang]);
    world.drain().await;
    assert_eq!(world.dead_letters.depth(), 1, "a dead letter");
    seen += &format!("{:?}", world.dead_letters);
    world.park().await;
    let id = world.ledger.rows()[0].id.clone();
    let list = Operation::List { limit: 10, only: Filter::default() };
    seen += &operate(&world.replay, list).await.expect("a list").to_string();
    seen += &operate(&world.replay, Operation::Show { id: id.clone() }).await.expect("a page").to_string();
    let again =
        Operation::Replay { id, by: "ada".into(), reason: "the token is new".into(), version: None, with_new: false };
    operate(&world.replay, again).await.expect("a replay");
    seen += &format!("{:?}", world.events.receive(10));
    world.clock.advance(std::time::Duration::from_secs(3600));
    world.drain().await;

    let sent = world.partners.calls();
    assert!(
        sent.iter().all(|(_, request)| request.credentials == Credentials::bearer(&Secret::new(TOKEN))),
        "the token was used"
    );
    seen += &format!("{sent:?} {:?} {}", world.ledger.rows(), log.text());
    assert!(world.clock.now() > crate::fixtures::NOW && log.text().contains("processed"), "it ran and was logged");
    for secret in [SECRET, OLD_SECRET, RECEIPTS_TOKEN, TOKEN] {
        let bare = secret.trim_start_matches("whsec_");
        assert!(!seen.contains(bare), "{secret} in {seen}");
    }
}
