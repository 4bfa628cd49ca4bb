//! Time-outs that no invocation has time for.

use std::time::Duration;

use processor::tell_misfits;
use shared::flows::Flows;
use shared::ledger::{Reason, State};

use super::world::World;
use crate::fixtures::{files, lead};

/// A stack whose ProcessorTimeout was lowered after its flows were checked.
fn lowered() -> World {
    let mut world = World::new();
    world.processor.timeout = Duration::from_secs(3);
    world
}

#[tokio::test]
async fn events_that_no_invocation_has_time_for_are_parked_with_their_reason() {
    let world = lowered();
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.poll().await;
    assert_eq!(world.events.depth(), 0, "it does not come back");
    world.park().await;
    let row = world.row(&id).await;
    let death = row.death.clone().expect("a reason");
    assert_eq!((row.state, death.reason, row.is_parked()), (State::Dead, Reason::Misconfigured, true));
    assert_eq!(
        death.error,
        "the timeout of `crm` is 3 s, and must be at most 2 s: the processor has 3 s for a batch (ProcessorTimeout)"
    );
    assert!(row.effects.is_empty() && world.partners.calls().is_empty(), "nothing was intended or called");
    assert_eq!(world.metrics.sum("DeadLetters{lead-routing,misconfigured}"), 1);
    assert!(row.may_replay().is_ok(), "once the parameter is right");
}

/// Its question would be cut off each time, and asked for ever.
#[tokio::test]
async fn a_partner_that_only_enriches_has_to_fit_as_well() {
    let mut files = files();
    files[1].text += "geo: {base_url: https://geo.example.com, auth: none, timeout: 4s}\n";
    let enrich = "enrich: [{id: geo, integration: geo, path: /here, result: {city: /city}}]\n\neffects:";
    files[2].text = files[2].text.replace("effects:", enrich);
    let mut world = World::with(Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}")));
    world.processor.timeout = Duration::from_secs(4);
    let id = world.post(&lead()).await.expect("a good lead").id;
    world.poll().await;
    let death = world.row(&id).await.death.expect("a reason");
    assert!(death.error.starts_with("the timeout of `geo` is 4 s"), "{}", death.error);
    assert_eq!((death.reason, world.partners.calls().len()), (Reason::Misconfigured, 0));
}

#[tokio::test]
async fn a_container_tells_at_its_start_what_will_never_fit() {
    let world = World::new();
    tell_misfits(&world.processor);
    assert_eq!(world.metrics.sum("TimeoutTooLong{crm}"), 0);
    let world = lowered();
    tell_misfits(&world.processor);
    assert_eq!(world.metrics.sum("TimeoutTooLong{crm}"), 1);
}

#[test]
fn a_time_out_of_ten_minutes_is_declined_with_the_number_that_it_must_fit() {
    let mut files = files();
    files[1].text = files[1].text.replacen("timeout: 3s", "timeout: 10m", 1);
    let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
    let problems = flows.fit_into(&files, Duration::from_secs(30)).expect_err("it does not fit");
    let told = problems.to_string();
    assert!(told.contains("is 600 s, and must be at most 29 s") && told.contains("integrations.yaml:"), "{told}");
    assert!(flows.fit_into(&files, Duration::from_secs(601)).is_ok());
}
