//! What is simulated, as data: the flows, how their events are made, and who is known.

use std::collections::BTreeMap;

use futures::executor::block_on;
use serde_json::{Map, Value};
use shared::base::id::EventId;
use shared::base::time::Timestamp;
use shared::effects::contact::{BadContact, ContactUpsert, Contacts as _};
use shared::flows::contract::Contracts;
use shared::flows::{Flow, Flows, Header};
use shared::model::ModelContacts;

use crate::recipe::{EventNumbers, EventPost, EventRecipe, FieldValue, HumanAnswer};

/// What is simulated.
#[derive(Clone)]
pub struct Scenario {
    /// The flows that are deployed first. A second version is deployed while events are on their way.
    pub versions: Vec<FlowsVersion>,
    /// How events are made, by the name of their flow in any version. A flow without a recipe has no events.
    pub events: BTreeMap<String, EventRecipe>,
    /// What partners list when they are asked what they did, by integration: for lookups that read a list by an
    /// expression. Every other lookup finds its call where its pointers say.
    pub listings: BTreeMap<String, Listing>,
    /// How many entities events are about, at most.
    pub entities: u64,
    /// Who is known as a contact when a run starts.
    pub contacts: Vec<KnownContact>,
    /// When a run starts, on its own clock.
    pub starts_at: Timestamp,
}

/// Flows with their schemas compiled: one version of what is deployed.
#[derive(Clone)]
pub struct FlowsVersion {
    pub(crate) flows: Flows,
    pub(crate) contracts: Contracts,
}

impl FlowsVersion {
    /// The version that these flows are.
    pub fn of(flows: Flows) -> Self {
        FlowsVersion { contracts: Contracts::of(&flows), flows }
    }

    /// The flows.
    pub fn flows(&self) -> &Flows {
        &self.flows
    }
}

/// A partner's list of all that it did, each as an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing {
    /// The field of the answer that holds the list.
    pub list: String,
    /// The fields of an object, by name.
    pub fields: BTreeMap<String, ListedField>,
}

/// What a listed object says of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum ListedField {
    /// What the form that was sent says under this name.
    Sent(String),
    /// What the form that was sent says under this name in JSON, as JSON.
    SentJson(String),
    /// When the partner did it, in RFC 3339.
    At,
    /// The partner's id of it.
    Id,
}

/// How many payloads a sender has for one event, if it edits what it repeats.
const VARIANTS: u64 = 4;

/// A contact that is known when a run starts.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownContact {
    /// Whose contact it is.
    pub tenant: String,
    /// The contact's address.
    pub email: String,
    /// What is known of the contact, by the names that guards and templates read.
    pub fields: Map<String, Value>,
}

/// A scenario that cannot be run, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// There are no flows.
    #[error("the scenario has no version of the flows")]
    NoVersion,
    /// Nothing would happen.
    #[error("no flow has a recipe for its events")]
    NoEvents,
    /// A recipe stands for a flow that is not there.
    #[error("there is a recipe for the flow `{0}`, which no version has")]
    UnknownFlow(String),
    /// A recipe changes what its payload does not have.
    #[error("the recipe of `{flow}` fills `{pointer}`, and its payload has nothing there")]
    NoField {
        /// The flow.
        flow: String,
        /// The JSON pointer.
        pointer: String,
    },
    /// A field takes its values from an empty list.
    #[error("the recipe of `{flow}` has no values for `{pointer}`")]
    NoValues {
        /// The flow.
        flow: String,
        /// The JSON pointer.
        pointer: String,
    },
    /// Events would be about nobody.
    #[error("events are about at least one entity")]
    NoEntities,
    /// Nobody could tell whose call it is: the partners know it by our key, whether they honour it or not.
    #[error(
        "the integration `{0}` takes no key, and the simulation knows calls by it: let it have an `idempotency_header`"
    )]
    NoKeyHeader(String),
    /// A contact cannot be kept.
    #[error("contact {0} of the scenario: {1}")]
    Contact(usize, BadContact),
}

impl Scenario {
    /// Refuses what cannot be run.
    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        if self.versions.is_empty() {
            return Err(ScenarioError::NoVersion);
        }
        if self.events.is_empty() {
            return Err(ScenarioError::NoEvents);
        }
        if self.entities == 0 {
            return Err(ScenarioError::NoEntities);
        }
        for (flow, recipe) in &self.events {
            if self.versions.iter().all(|version| version.flows.flow(flow).is_none()) {
                return Err(ScenarioError::UnknownFlow(flow.clone()));
            }
            check_recipe(flow, recipe)?;
        }
        let mut partners = self.versions.iter().flat_map(|version| version.flows.integrations());
        if let Some((name, _)) = partners.find(|(_, partner)| partner.idempotency_header.is_empty()) {
            return Err(ScenarioError::NoKeyHeader(name.to_owned()));
        }
        for (number, contact) in self.contacts.iter().enumerate() {
            contact.upsert().map_err(|bad| ScenarioError::Contact(number, bad))?;
        }
        Ok(())
    }

    /// The flows that events are made for, by name.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows_of(&self.versions)
    }

    /// The flows of these versions that events are made for, by name, as the first of them has each.
    pub(crate) fn flows_of<'s>(&'s self, versions: &'s [FlowsVersion]) -> impl Iterator<Item = &'s Flow> {
        let first_of = |name: &str| versions.iter().find_map(|version| version.flows.flow(name));
        self.events.keys().filter_map(move |name| first_of(name))
    }

    /// An event of a flow, as its sender posts it.
    ///
    /// Panics if the flow has no recipe.
    pub(crate) fn post(&self, flow: &Flow, event: u64, entity: u64, answer: Option<&HumanAnswer>) -> EventPost {
        self.variant(flow, EventNumbers { event, entity, starts_at: self.starts_at, variant: 0, answer })
    }

    /// An event of a flow, as a sender posts it that edits what it repeats. Where a header is the key, another payload
    /// under it is rejected: such a sender repeats itself exactly.
    pub(crate) fn edited_posts(&self, flow: &Flow, event: u64, entity: u64) -> Vec<EventPost> {
        let variants = if flow.key.header == Header::Ignored { 0..VARIANTS } else { 0..1 };
        let numbers = |variant| EventNumbers { event, entity, starts_at: self.starts_at, variant, answer: None };
        variants.map(|variant| self.variant(flow, numbers(variant))).collect()
    }

    fn variant(&self, flow: &Flow, numbers: EventNumbers<'_>) -> EventPost {
        let source = self.versions.iter().find_map(|version| version.flows.source(&flow.on.source));
        let source = source.expect("flows name sources that are there");
        self.events[&flow.name].post(flow, source, &numbers)
    }

    /// The contacts that are known when a run starts, from long before: a clock may be behind the run's.
    pub(crate) fn known_contacts(&self) -> ModelContacts {
        let contacts = ModelContacts::default();
        for contact in &self.contacts {
            let upsert = contact.upsert().expect("contacts were checked");
            let written = block_on(contacts.upsert(&upsert, &EventId::named("before"), Timestamp::from_secs(0)));
            written.expect("the model answers");
        }
        contacts
    }
}

impl KnownContact {
    pub(crate) fn upsert(&self) -> Result<ContactUpsert, BadContact> {
        ContactUpsert::new(&self.tenant, &self.email, &self.fields)
    }
}

fn check_recipe(flow: &str, recipe: &EventRecipe) -> Result<(), ScenarioError> {
    for (pointer, value) in &recipe.fields {
        let (flow, pointer) = (flow.to_owned(), pointer.clone());
        if recipe.payload.pointer(&pointer).is_none() {
            return Err(ScenarioError::NoField { flow, pointer });
        }
        if matches!(value, FieldValue::Cycle(values) if values.is_empty()) {
            return Err(ScenarioError::NoValues { flow, pointer });
        }
    }
    Ok(())
}
