//! Composite alarms: their rules over the states of others, and who is told while a suppressor stands.

use std::collections::{BTreeMap, BTreeSet};

use super::evaluate::AlarmState;
use crate::template::Template;

/// A composite alarm.
#[derive(Debug)]
pub(super) struct Composite {
    /// Alternatives, each of which wants all of its alarms.
    any_of: Vec<Vec<String>>,
    suppressor: Option<Suppressor>,
}

/// An alarm that holds another's actions back. Minutes.
#[derive(Debug)]
struct Suppressor {
    alarm: String,
    wait: usize,
    extension: usize,
}

/// The composite alarms of the template, by their logical ids.
pub(super) fn composites() -> BTreeMap<String, Composite> {
    let template = Template::read();
    let composites = template.resources("AWS::CloudWatch::CompositeAlarm").into_iter().map(|(id, composite)| {
        let properties = &composite["Properties"];
        let minutes = |name: &str| properties[name].as_u64().expect("seconds").div_ceil(60) as usize;
        let suppressor = properties["ActionsSuppressor"].as_str().map(|alarm| Suppressor {
            alarm: alarm.trim_end_matches(".Arn").to_owned(),
            wait: minutes("ActionsSuppressorWaitPeriod"),
            extension: minutes("ActionsSuppressorExtensionPeriod"),
        });
        (id.clone(), Composite { any_of: rule(properties["AlarmRule"].as_str().expect("a rule")), suppressor })
    });
    composites.collect()
}

/// Reads `ALARM("${A}") AND ALARM("${B}") OR …`: no rule here needs more.
fn rule(text: &str) -> Vec<Vec<String>> {
    let alarm = |term: &str| {
        let name = term.trim().strip_prefix("ALARM(\"${").and_then(|rest| rest.strip_suffix("}\")"));
        name.unwrap_or_else(|| panic!("{term} is no ALARM")).to_owned()
    };
    text.split(" OR ").map(|all| all.split(" AND ").map(alarm).collect()).collect()
}

impl Composite {
    /// The alarms that it is made of.
    pub(super) fn parts(&self) -> BTreeSet<&String> {
        self.any_of.iter().flatten().collect()
    }

    pub(super) fn suppressor(&self) -> Option<&String> {
        self.suppressor.as_ref().map(|suppressor| &suppressor.alarm)
    }

    fn stands(&self, state: &dyn Fn(&str) -> AlarmState) -> bool {
        self.any_of.iter().any(|all| all.iter().all(|alarm| state(alarm) == AlarmState::Alarm))
    }

    /// The minutes at which somebody is told, of the states of the other alarms at each minute.
    pub(super) fn told(&self, states: &BTreeMap<String, Vec<AlarmState>>) -> Vec<usize> {
        let minutes = states.values().map(Vec::len).min().unwrap_or(0);
        let (mut told, mut pending, mut held) = (Vec::new(), None, 0);
        let mut before = false;
        for minute in 0..minutes {
            let state = |alarm: &str| states.get(alarm).map_or(AlarmState::Ok, |states| states[minute]);
            let stands = self.stands(&state);
            if stands && !before {
                pending = Some(minute + self.suppressor.as_ref().map_or(0, |suppressor| suppressor.wait));
            }
            pending = pending.filter(|_| stands);
            if let Some(suppressor) = &self.suppressor
                && state(&suppressor.alarm) == AlarmState::Alarm
            {
                held = minute + 1 + suppressor.extension;
            }
            if pending.is_some_and(|due| minute >= due.max(held)) {
                told.push(minute);
                pending = None;
            }
            before = stands;
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::super::definition::alarms;
    use super::super::evaluate::{INTERPRETATIONS, states};
    use super::super::series::{AlarmMetric, Store};
    use super::*;

    /// The states of one alarm that stands from one minute to another, in an hour.
    fn standing(from: usize, to: usize) -> Vec<AlarmState> {
        (0..60).map(|minute| if (from..to).contains(&minute) { AlarmState::Alarm } else { AlarmState::Ok }).collect()
    }

    /// The states of the suppressor after `make deploy` counted its begin, by the suppressor's own definition.
    fn deploy_at(minute: i64) -> Vec<AlarmState> {
        let mut store = Store::default();
        store.put(AlarmMetric::parse("Deploying"), minute, [1.0]);
        states(&alarms()["Deploying"], &store, 60, INTERPRETATIONS[0])
    }

    #[test]
    fn each_part_of_a_composite_tells_somebody_or_needs_its_fellows() {
        let (composites, alarms) = (composites(), alarms());
        assert!(composites.len() >= 5);
        for (name, composite) in &composites {
            assert!(composite.parts().iter().all(|part| alarms.contains_key(*part)), "{name}");
            for all in &composite.any_of {
                let up = |parts: &[String]| parts.iter().map(|part| (part.clone(), standing(10, 20))).collect();
                assert_eq!(composite.told(&up(all)).len(), 1, "{name}: {all:?}");
                assert!(composite.told(&up(&all[1..])).is_empty(), "{name}: a part alone of {all:?}");
            }
        }
    }

    #[test]
    fn a_deploy_holds_back_what_ends_with_it_and_delays_what_does_not() {
        for (name, composite) in composites().into_iter().filter(|(_, composite)| composite.suppressor().is_some()) {
            assert_eq!(composite.suppressor().map(String::as_str), Some("Deploying"), "{name}");
            let part = composite.any_of[0][0].clone();
            let told = |deploy: Vec<AlarmState>, from, to| {
                composite.told(&BTreeMap::from([("Deploying".into(), deploy), (part.clone(), standing(from, to))]))
            };
            assert_eq!(told(standing(0, 0), 10, 20), [11], "{name}: with no deploy, a minute for it to be known");
            assert!(told(deploy_at(5), 8, 14).is_empty(), "{name}: it ends while the deploy is under way");
            let late = told(deploy_at(5), 8, 60);
            assert!(late.len() == 1 && (20..=23).contains(&late[0]), "{name}: a bad deploy is told: {late:?}");
            assert_eq!(told(deploy_at(5), 30, 60), [31], "{name}: after it, as without it");
            assert!(told(deploy_at(9), 8, 14).is_empty(), "{name}: the deploy is known a minute late");
        }
    }
}
