//! What partners really keep, as far as it is known: what the catalogue says of them, else what the flow's author states,
//! else what the flow declares.

use std::collections::BTreeMap;
use std::time::Duration;

use shared::flows::{Effect, Flow, Flows, Guarantee, Meaning, PartnerAnswer};

use crate::scenarios::written::{Keeps, KeptGuarantee, Statements, WrittenSpan};

/// What is known of the partners of a flow.
pub(super) struct Truth {
    /// What they keep, where that is not what the flow declares.
    pub(super) keeps: BTreeMap<String, Keeps>,
    /// How long they take until a lookup finds what they did, by effect.
    settles: BTreeMap<String, Duration>,
    /// The flows as the catalogue has their partners: without rows of answers that flows and integrations add.
    catalogue: Flows,
    flow: String,
    /// What is taken for true, a sentence each.
    pub(super) assumed: Vec<String>,
}

impl Truth {
    /// What is known of the partners that a flow calls. `catalogue` are the flows without what they say themselves of
    /// partners of the catalogue.
    pub(super) fn of(flows: &Flows, catalogue: Flows, flow: &Flow, stated: &Statements) -> Self {
        let mut truth = Truth {
            keeps: stated.keeps.clone(),
            settles: BTreeMap::new(),
            catalogue,
            flow: flow.name.clone(),
            assumed: Vec::new(),
        };
        for effect in flow.effects.iter() {
            if let Some(integration) = effect.integration() {
                truth.learn(flows, effect, integration, stated);
            }
        }
        truth.assumed.sort();
        truth.assumed.dedup();
        truth
    }

    fn learn(&mut self, flows: &Flows, effect: &Effect, integration: &str, stated: &Statements) {
        let known = self.known(effect).cloned();
        let said = known.as_ref().map(|known| known.guarantee);
        if let (Some(said), None) = (said, stated.keeps.get(integration)) {
            let weaker = rank(said) < rank(effect.guarantee) && effect.guarantee != Guarantee::Lookup;
            if weaker {
                let keeps = Keeps { guarantee: said.into(), key_window: None };
                self.keeps.insert(integration.to_owned(), keeps);
            }
        }
        let window =
            |flows: &Flows| flows.integration(integration).map(|partner| partner.key_window).unwrap_or_default();
        if window(&self.catalogue) < window(flows) && effect.guarantee == Guarantee::Native {
            let key_window = Some(WrittenSpan(window(&self.catalogue)));
            let keeps = Keeps { guarantee: KeptGuarantee::Native, key_window };
            self.keeps.entry(integration.to_owned()).or_insert(keeps);
        }
        let after = known.as_ref().and_then(|known| known.lookup.as_ref()).map(|lookup| lookup.after);
        let settles = stated.settles.get(integration).map(|span| span.0).or(after).or(effect.asked_after());
        self.settles.extend(settles.map(|settles| (effect.id.clone(), settles)));
        let keeps = self.keeps.get(integration);
        let guarantee = keeps.map_or(KeptGuarantee::from(effect.guarantee), |keeps| keeps.guarantee);
        let by = match (stated.keeps.contains_key(integration), said) {
            (true, _) => "as you state",
            (false, Some(_)) => "as the catalogue says",
            (false, None) => "as the flow declares",
        };
        let window = flows.integration(integration).map(|partner| partner.key_window).unwrap_or_default();
        let window = keeps.and_then(|keeps| keeps.key_window).map_or(window, |span| span.0);
        let words = match guarantee {
            KeptGuarantee::Native => format!("knows our key for {}", WrittenSpan(window)),
            KeptGuarantee::Idempotent => "may be asked again".to_owned(),
            KeptGuarantee::Lookup => "does again what it is asked again, and can be asked".to_owned(),
            KeptGuarantee::None => "does again what it is asked again".to_owned(),
        };
        self.assumed.push(format!("{integration} {words}, {by}"));
        if let Some(settles) = settles.filter(|_| effect.lookup.is_some()) {
            let settles = WrittenSpan(settles);
            self.assumed.push(format!("{integration} shows what it did within {settles}"));
        }
    }

    /// The effect as the catalogue has its call.
    fn known(&self, effect: &Effect) -> Option<&Effect> {
        effect.named.as_ref()?;
        let known = self.catalogue.flow(&self.flow)?.effects.iter().find(|known| known.id == effect.id)?;
        Some(known)
    }

    /// What an answer really means.
    pub(super) fn meaning(&self, effect: &Effect, answer: &PartnerAnswer) -> Meaning {
        let flow = self.catalogue.flow(&self.flow);
        let known = flow.and_then(|flow| flow.effects.iter().find(|known| known.id == effect.id));
        known.map_or(Meaning::InDoubt, |known| self.catalogue.read_answer(known, answer).meaning)
    }

    /// Whether the partner acted, as far as its answer leaves that open.
    pub(super) fn may_have_acted(&self, effect: &Effect, answer: &PartnerAnswer) -> Vec<bool> {
        match self.meaning(effect, answer) {
            Meaning::Done => vec![true],
            Meaning::Retry | Meaning::Failed | Meaning::CredentialsRejected => vec![false],
            Meaning::InDoubt => vec![true, false],
        }
    }

    /// Whether a 503 says nothing of what the partner did.
    pub(super) fn leaves_503_open(&self, effect: &Effect) -> bool {
        self.may_have_acted(effect, &PartnerAnswer { status: 503, ..PartnerAnswer::default() }).len() == 2
    }

    /// How long it takes until a lookup finds what the partner did.
    pub(super) fn settles(&self, effect: &Effect) -> Option<Duration> {
        self.settles.get(&effect.id).copied()
    }
}

/// How much a guarantee promises.
pub(crate) fn rank(guarantee: Guarantee) -> u8 {
    match guarantee {
        Guarantee::None => 0,
        Guarantee::Lookup => 1,
        Guarantee::Idempotent => 2,
        Guarantee::Native => 3,
    }
}
