//! Smaller worlds: with one thing less.

use serde_json::Value;

use super::worlds::SmallWorld;

/// The worlds with one thing less than this one: a fault, an answer, a step behind the first, a changed field.
pub(super) fn smaller(world: &SmallWorld) -> Vec<SmallWorld> {
    let mut worlds = Vec::new();
    let faults = world.scenario["faults"].as_array().map_or(0, Vec::len);
    worlds.extend((0..faults).map(|place| without(world, "/faults", place)));
    for integration in world.scenario["partners"].as_object().into_iter().flat_map(|partners| partners.keys()) {
        let pointer = format!("/partners/{integration}");
        let answers = world.scenario.pointer(&pointer).and_then(Value::as_array).map_or(0, Vec::len);
        worlds.extend((0..answers).map(|place| without(world, &pointer, place)));
    }
    let steps = world.scenario["given"].as_array().map(Vec::as_slice).unwrap_or_default();
    let delivers = |step: &Value| !step["deliver"].is_null();
    worlds.extend((1..steps.len()).map(|place| {
        let mut world = without(world, "/given", place);
        if delivers(&steps[place]) {
            world.sent.remove(steps[..place].iter().filter(|step| delivers(step)).count());
        }
        world
    }));
    worlds
}

fn without(world: &SmallWorld, pointer: &str, place: usize) -> SmallWorld {
    let mut world = world.clone();
    if let Some(items) = world.scenario.pointer_mut(pointer).and_then(Value::as_array_mut) {
        items.remove(place);
    }
    if let Some(partners) = world.scenario["partners"].as_object_mut() {
        partners.retain(|_, answers| answers.as_array().is_some_and(|answers| !answers.is_empty()));
    }
    for name in ["partners", "faults"] {
        let empty = |value: &Value| {
            value.as_object().is_some_and(|fields| fields.is_empty()) || value.as_array().is_some_and(Vec::is_empty)
        };
        if world.scenario.get(name).is_some_and(|value| value.is_null() || empty(value))
            && let Some(fields) = world.scenario.as_object_mut()
        {
            fields.remove(name);
        }
    }
    world
}
