//! What is allowed in flows, and hardly meant.

use super::{Effect, File, Flow, Flows, Guarantee, Problem};
use crate::base::wrong::Wrong;

impl Flows {
    /// What is allowed and hardly meant, in flows that were read from these files.
    pub fn warnings(&self, files: &[File]) -> Vec<Problem> {
        let of_flow = |flow: &Flow| {
            let told = self.is_forgotten_early(flow).into_iter().chain(self.is_outlived(flow));
            let file = format!("flows/{}.yaml", flow.name);
            told.map(|wrong| Problem::locate(files, &file, &wrong)).collect::<Vec<_>>()
        };
        self.flows.values().flat_map(of_flow).collect()
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
}
