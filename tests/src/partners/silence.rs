//! Every call of the catalogue, done by its partner, whose answer is then lost: what its guarantee makes of that. The
//! partner's own log says what really happened.

use std::sync::Arc;

use async_trait::async_trait;
use local::partners::{PartnerCall, PartnerModel};
use local::prism::{PartnerSamples, flows_trusting, samples};
use serde_json::json;
use shared::base::machine::Clock;
use shared::effects::outcome::NoAnswer;
use shared::effects::request::{PartnerRequest, Partners};
use shared::flows::{Guarantee, PartnerAnswer};
use shared::ledger::{Reason, Row, State};
use shared::model::ModelClock;

use super::effect_of;
use crate::fixtures::root;
use crate::memory::{SECRET, World};

/// A partner on the clock of its world.
pub(super) struct SilentPartner {
    pub(super) model: Arc<PartnerModel>,
    pub(super) clock: ModelClock,
}

#[async_trait]
impl Partners for SilentPartner {
    async fn call(&self, request: PartnerRequest) -> Result<PartnerAnswer, NoAnswer> {
        self.model.call(&request, self.clock.now()).ok_or_else(|| NoAnswer::Lost("the connection ended".into()))
    }
}

/// What became of one event with one effect.
struct Told {
    row: Row,
    calls: Vec<PartnerCall>,
    guarantee: Guarantee,
    asks: bool,
}

impl Told {
    /// How often the partner was asked to do it, and how often it did.
    fn posts(&self) -> (usize, usize) {
        let first = &self.calls[0];
        let again = |call: &&PartnerCall| call.method == first.method && call.body == first.body;
        let posts: Vec<&PartnerCall> = self.calls.iter().filter(again).collect();
        assert!(posts.iter().all(|post| post.path == first.path), "{posts:?}");
        (posts.len(), posts.iter().filter(|post| post.applied).count())
    }

    /// How often the partner was asked whether it happened.
    fn questions(&self) -> usize {
        self.calls.len() - self.posts().0
    }
}

/// One call, whose first answer is lost; done or not.
async fn silent(partner: &str, call: &str, all: &PartnerSamples, own: Option<&str>, is_done: bool) -> Told {
    let mut one = all.clone();
    one.calls.retain(|name, _| name == call);
    let flows = flows_trusting(&root(), partner, &one, own).unwrap_or_else(|error| panic!("{error:#}"));
    let effect = effect_of(&flows, call);
    let (guarantee, asks) = (effect.guarantee, effect.lookup.is_some());
    let mut world = World::with(flows);
    world.secrets.put("sources/shop", SECRET);
    let model = Arc::new(PartnerModel::new(partner));
    world.processor.partners = Box::new(SilentPartner { model: Arc::clone(&model), clock: world.clock.clone() });
    model.lose_next_answer(is_done);
    let sent = world.send("shop", None, &json!({"type": "sample", "id": "o-1"}), &[]).await;
    world.drain().await;
    let row = world.row(&sent.unwrap_or_else(|error| panic!("{error:?}")).id).await;
    let mut calls = model.calls();
    // What is changed was made before.
    calls.retain(|made| made.method != "POST" || !call.starts_with("update"));
    Told { row, calls, guarantee, asks }
}

#[tokio::test]
async fn every_call_that_acts_and_is_silent_is_what_its_guarantee_says() {
    let mut calls = 0;
    for (partner, all) in samples(&root()).expect("the samples") {
        for call in all.calls.keys() {
            calls += 1;
            let told = silent(&partner, call, &all, None, true).await;
            let name = format!("{partner}.{call}: {:?}", told.row.history);
            match told.guarantee {
                Guarantee::None => {
                    assert_eq!(
                        told.row.death.as_ref().map(|death| death.reason),
                        Some(Reason::UnknownOutcome),
                        "{name}"
                    );
                    assert_eq!((told.posts(), told.questions()), ((1, 1), 0), "{name}");
                }
                Guarantee::Native => assert_eq!((told.posts(), told.questions()), ((2, 1), 0), "{name}"),
                Guarantee::Idempotent => assert_eq!((told.posts().0, told.questions()), (2, 0), "{name}"),
                Guarantee::Lookup => assert_eq!((told.posts(), told.questions()), ((1, 1), 1), "{name}"),
            }
            let is_unknown = told.guarantee == Guarantee::None;
            assert_eq!(told.row.state, if is_unknown { State::Dead } else { State::Succeeded }, "{name}");
        }
    }
    assert_eq!(calls, 17);
}

/// "Can be asked": an effect may trust the lookup of its call.
#[tokio::test]
async fn every_call_that_can_be_asked_finds_what_was_done_and_nothing_else() {
    let mut asked = Vec::new();
    for (partner, all) in samples(&root()).expect("the samples") {
        for call in all.calls.keys() {
            if !silent(&partner, call, &all, None, true).await.asks {
                continue;
            }
            asked.push(format!("{partner}.{call}"));
            for (is_done, posts) in [(true, (1, 1)), (false, (2, 1))] {
                let told = silent(&partner, call, &all, Some("lookup"), is_done).await;
                let name = format!("{partner}.{call}, done: {is_done}: {:?}", told.row.history);
                assert_eq!((told.posts(), told.questions(), told.row.state), (posts, 1, State::Succeeded), "{name}");
            }
        }
    }
    let known = ["hubspot.create_contact", "shopify.create_discount_code", "slack.post_message", "twilio.send_message"];
    assert_eq!(asked, known);
}
