//! What is allowed in flows, and hardly meant.

use super::{Effect, File, Flow, Flows, Guarantee, Problem, Source};
use crate::base::wrong::{Wrong, step};

impl Flows {
    /// What is allowed and hardly meant, in flows that were read from these files.
    pub fn warnings(&self, files: &[File]) -> Vec<Problem> {
        let of_flow = |flow: &Flow| {
            let told =
                [self.is_forgotten_early(flow), self.is_forgotten_before_its_signature(flow), self.is_outlived(flow)];
            let file = format!("flows/{}.yaml", flow.name);
            told.into_iter().flatten().map(|wrong| Problem::locate(files, &file, &wrong)).collect::<Vec<_>>()
        };
        let of_source = |(name, source): (&String, &Source)| {
            let wrong = rejects_repetitions(name, source)?;
            Some(Problem::locate(files, "sources.yaml", &wrong))
        };
        self.sources.iter().filter_map(of_source).chain(self.flows.values().flat_map(of_flow)).collect()
    }

    /// A key that is forgotten while its sender may still repeat the delivery, which would then be a new event.
    fn is_forgotten_early(&self, flow: &Flow) -> Option<Wrong> {
        let source = &flow.on.source;
        let retries = self.source(source)?.retries.filter(|retries| flow.ttl <= retries.within)?;
        let hours = retries.within.as_secs_f64() / 3600.0;
        let what = format!("ttl is not longer than `{source}` repeats a delivery, which is {hours:.1} h");
        let hint =
            "a repetition after the ttl is a new event: raise the ttl, or let the key have a moment of the event";
        Some(Wrong::at("/ttl", what).hint(hint))
    }

    /// A key that is forgotten while a copy of its delivery is still believed.
    fn is_forgotten_before_its_signature(&self, flow: &Flow) -> Option<Wrong> {
        let name = &flow.on.source;
        self.source(name).filter(|source| source.scheme.signs_time() && flow.ttl < source.tolerance())?;
        let what = format!("ttl is shorter than the tolerance of `{name}`");
        let hint = "whoever has a copy of a delivery could have it acted on again: raise the ttl";
        Some(Wrong::at("/ttl", what).hint(hint))
    }

    /// A row that is gone while a partner still knows its key: a new event would not know that it is not the first.
    fn is_outlived(&self, flow: &Flow) -> Option<Wrong> {
        let remembered = |effect: &&Effect| {
            let window = self.partner_of(effect).map(|partner| partner.key_window);
            effect.guarantee == Guarantee::Native && window.is_some_and(|window| window > flow.retention().row)
        };
        let effect = flow.effects.iter().find(remembered)?;
        let what = format!("keep is shorter than the partner of `{}` remembers our key", effect.id);
        let hint = "an event that comes again in between would have the key of the first one: raise keep";
        Some(Wrong::at("/keep", what).hint(hint))
    }
}

/// A tolerance that ends before the repetitions of a sender that may sign only once: the later ones are all rejected.
fn rejects_repetitions(name: &str, source: &Source) -> Option<Wrong> {
    let retries = source.retries.filter(|retries| !retries.signed_anew && source.tolerance() <= retries.within)?;
    if !source.scheme.signs_time() {
        return None;
    }
    let hours = retries.within.as_secs_f64() / 3600.0;
    let what = format!("the tolerance of `{name}` is not longer than it repeats a delivery, which is {hours:.1} h");
    let hint = "a repetition with the signature of the first try is rejected: raise the tolerance, or say \
                `signed_anew: true` in `retries` if the sender signs each try";
    Some(Wrong::at(step(name), what).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: &str = "
name: leads
version: 1
on: {source: shop, type: lead}
schema: {required: [email], properties: {email: {}}}
key: {version: 1, fields: [email]}
order_by: email
ttl: 72h
effects: [{id: crm, integration: crm, guarantee: native, request: {method: POST, path: /leads}}]
retry: {strategy: fixed, base: 1s, max_delay: 1s, max_attempts: 2}
";

    #[test]
    fn a_partner_that_remembers_a_key_for_longer_than_its_row_is_kept_is_told() {
        for (window, keep, told) in [("24h", "", 0), ("40d", "", 1), ("40d", "keep: 60d\n", 0)] {
            let integrations = format!("crm: {{base_url: https://crm.example.com, timeout: 3s, key_window: {window}}}");
            let files = [
                ("sources.yaml", "shop: {scheme: github, max_body: 1KiB, rate: 10/s, type_at: type}".to_owned()),
                ("integrations.yaml", integrations),
                ("flows/leads.yaml", format!("{FLOW}{keep}")),
            ];
            let files = files.map(|(path, text)| File { path: path.into(), text });
            let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
            assert_eq!(flows.warnings(&files).len(), told, "{window} {keep}");
        }
    }

    fn warned(source: &str) -> Vec<String> {
        let sources = format!("shop: {{scheme: {source}, max_body: 1KiB, rate: 10/s, type_at: type}}");
        let files = [
            ("sources.yaml", sources),
            ("integrations.yaml", "crm: {base_url: https://crm.example.com, timeout: 3s}".to_owned()),
            ("flows/leads.yaml", FLOW.to_owned()),
        ];
        let files = files.map(|(path, text)| File { path: path.into(), text });
        let flows = Flows::parse(&files).unwrap_or_else(|problems| panic!("{problems}"));
        flows.warnings(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_tolerance_that_rejects_the_repetitions_of_a_sender_that_signs_once_is_told() {
        let told = "sources.yaml:1:1: the tolerance of `shop` is not longer than it repeats a delivery, which is 8.0 h";
        for bad in ["stripe, retries: {for: 8h}", "stripe, tolerance: 8h, retries: {for: 8h}"] {
            let warnings = warned(bad);
            assert!(warnings.len() == 1 && warnings[0].starts_with(told), "{bad}: {warnings:?}");
        }
        for good in [
            "stripe",
            "stripe, tolerance: 9h, retries: {for: 8h}",
            "stripe, retries: {for: 8h, signed_anew: true}",
            "github, retries: {for: 8h}",
            "stripe, retries: {for: 4m}",
        ] {
            assert_eq!(warned(good), Vec::<String>::new(), "{good}");
        }
    }

    #[test]
    fn a_key_that_is_forgotten_before_its_delivery_is_told() {
        let [warning] = &warned("stripe, tolerance: 73h")[..] else { panic!("one warning") };
        assert!(warning.starts_with("flows/leads.yaml:8:6: ttl is shorter than the tolerance of `shop`"), "{warning}");
        assert_eq!(warned("stripe, tolerance: 72h"), Vec::<String>::new());
    }
}
